"""Settings of the models in the benchmarks. No other benchmark module names a setting.

Recipes of Sparse-CHMM: "paper" is the library's preset of the published method with the initial
matrices set directly. Its learning rates were chosen for the authors' features; ours come from other
encoders and are standardized by the model, so the same rate does not mean the same here. "ours" are
the defaults of the library, with the differences below. "no-gold" are the defaults, and no gold for
stopping either.
"""

from __future__ import annotations

from typing import Any

from convener.models.sparse_chmm.paper import BY_DATA, PLAIN, paper_settings

Settings = dict[str, Any]

MATRICES_SET: Settings = {"init": "paper"}
"""The paper approaches its initial matrices by pre-training. Here they are set directly."""

OURS: dict[str, Settings] = {
    "CoNLL": {},
    "NCBI-Disease": {"new_span_penalty": 0.0},
    "BC5CDR": {},
    "LaptopReview": {"new_span_penalty": 0.0},
}
BY_ENCODER: dict[tuple[str, str], Settings] = {("BC5CDR", "minilm"): {"new_span_penalty": 1.0}}
"""Differences from the library's defaults; chosen on gold of valid and train."""

NAMES = ("ours", "no-gold", "paper")

OTHERS: dict[tuple[str, str], Settings] = {
    ("majority-vote", "io"): {"scheme": "io"},
    ("majority-vote", "span"): {"scheme": "span"},
    ("dws", "paper"): PLAIN,
    ("connet", "alone"): {"use_votes": False},
    ("connet", "paper"): PLAIN | {"use_votes": False, "ignore_unmarked": False},
    ("bert-ner", "frozen"): {"fine_tune": False},
    ("bert-ner", "finetuned"): {"fine_tune": True},
}
"""Other models by variant. ("dws", "paper") and ("connet", "paper") are without our additions."""
FINETUNING: dict[str, Settings] = {"mpnet": {"max_epochs": 3}, "minilm": {"max_epochs": 5}}
"""Encoders that are trained: a large one needs fewer epochs, and takes eight times as long."""

ABLATIONS: dict[str, Settings] = {
    "after-stage-1": {"stages": "1"},
    "after-stage-2": {"stages": "1-2"},
    "naive": {"expansion": False},
    "without-h": {"h_n": 1.0, "h_s": 1.0},
    "without-softmax": {"softmax": False},
    "without-dirichlet": {"dirichlet": False},
    "without-stage-2": {"stages": "1-3"},
    "merged-2-and-3": {"stages": "1-23"},
}
"""Sparse-CHMM without one of its parts, as in the paper's ablation study."""

TIMED: Settings = {"max_epochs": 5, "patience": 20}
"""Fits whose epochs are timed: five epochs of every stage, none stopped early."""
SMOKE: Settings = {"max_epochs": 1, "max_iter": 2}
"""Fits of smoke tests; applied to models that have these settings."""
ONE_EPOCH: Settings = {"max_epochs": 1}
"""A fit that only compiles."""
SCORE_WINDOW = "score_window"
"""Epochs over which validation scores of the first stage are averaged."""
BATCH_SIZE = "batch_size"
STEP_PLAIN: Settings = {"context_window": 0, "dropout": 0.0, "nu_base": 0.5}
STEP_CONTEXT: Settings = {"nu_base": 0.5}
"""Training steps that are timed: the paper's transitions, and the default's."""


def settings(recipe: str, data: str, encoder: str = "") -> Settings:
    """Settings of Sparse-CHMM for a data set; those of CoNLL where the paper has none.

    >>> settings("ours", "CoNLL", "minilm"), settings("paper", "CoNLL")["init"]
    ({}, 'paper')
    """
    ours = OURS.get(data, {}) | BY_ENCODER.get((data, encoder), {})
    paper = paper_settings(data if data in BY_DATA else "CoNLL") | MATRICES_SET
    return {"ours": ours, "no-gold": {}, "paper": paper}[recipe]


def others(model: str, variant: str, encoder: str = "") -> Settings:
    """Settings of any other model.

    >>> others("bert-ner", "frozen", "minilm")["encoder"]
    'minilm'
    """
    chosen = OTHERS.get((model, variant), {})
    if model != "bert-ner":
        return chosen
    return chosen | {"encoder": encoder} | (FINETUNING.get(encoder, {}) if variant == "finetuned" else {})


def exponents(*, h_n: float | None = None, h_s: float | None = None, g_n: float | None = None) -> Settings:
    """Exponents of Sparse-CHMM's functions h and g.

    >>> len(exponents(h_n=1.2, h_s=1.5)), len(exponents(g_n=4.0))
    (2, 1)
    """
    values = {"h_n": h_n, "h_s": h_s, "g_n": g_n}
    return {name: value for name, value in values.items() if value is not None}


def em_steps(steps: int) -> Settings:
    """Exactly so many steps of expectation maximization."""
    return {"max_iter": steps, "tol": 0}

"""Settings of the models in the benchmarks. No other benchmark module names a setting.

Recipes of Sparse-CHMM: "paper" is the paper's table of hyper-parameters without our additions. Its
learning rates were chosen for the authors' features; ours come from other encoders and are
standardized by the model, so the same rate does not mean the same here. "ours" are the defaults of
the library, with the differences below. "no-gold" are the defaults, and no gold for stopping either.
"""

from __future__ import annotations

from typing import Any

Settings = dict[str, Any]

BARE: Settings = {
    "silence": 1.0,
    "edge": 0.0,
    "clash": 0.0,
    "doubt": 0.0,
    "trust": 1.0,
    "context": 0,
    "dropout": 0.0,
}
"""A neural chain without anything that we added."""

PLAIN: Settings = BARE | {
    "start": "paper",
    "tau": 1.0,
    "exponent": 4.0,
    "initial_lr": 1e-2,
    "decay": 1e-5,
    "epochs": 100,
    "patience": 20,
}
"""The paper's model, the same on every data set: every unmarked token is a vote for O, transitions
depend on the token alone, and initial matrices and objective are the paper's. As in the library's
defaults, the initial matrices are set directly, without pre-training, and transitions that BIO does
not allow are excluded."""

PAPER: dict[str, Settings] = {
    "CoNLL": {
        "batch": 256,
        "lr": 2e-4,
        "expansion_lr": 4e-5,
        "use_mv": False,
        "level": "entity",
        "base": 10.0,
        "expand": 1000.0,
        "steepness": 1.2,
        "root": 1.5,
        "turn": 1 / 2,
        "later_turn": 1 / 20,
        "smooth": 5,
    },
    "NCBI-Disease": {
        "batch": 128,
        "lr": 1e-3,
        "expansion_lr": 2e-4,
        "use_mv": True,
        "level": "label",
        "base": 2.0,
        "expand": 1500.0,
        "steepness": 1.2,
        "root": 3.0,
        "turn": 1 / 20,
        "later_turn": 1 / 20,
        "smooth": 1,
    },
    "BC5CDR": {
        "batch": 128,
        "lr": 1e-3,
        "expansion_lr": 2e-4,
        "use_mv": False,
        "level": "entity",
        "base": 2.0,
        "expand": 1500.0,
        "steepness": 0.9,
        "root": 1.1,
        "turn": 1 / 10,
        "later_turn": 1 / 10,
        "smooth": 5,
    },
    "LaptopReview": {
        "batch": 256,
        "lr": 1e-4,
        "expansion_lr": 2e-5,
        "use_mv": True,
        "level": "label",
        "base": 2.0,
        "expand": 1000.0,
        "steepness": 0.8,
        "root": 1.5,
        "turn": 1 / 20,
        "later_turn": 1 / 20,
        "smooth": 1,
    },
}
"""Table "Hyper-parameters". The learning rate is that of stages 1 and 3, which are the same in the
paper; turning points are shares of 1/L; the paper averages validation scores of stage 1 on CoNLL and
BC5CDR. (OntoNotes, for whoever has it: batch size 32, learning rates 1e-4 and 2e-5, entity level,
nu_base 2, nu_expan 1000, h_n 1.1, h_s 1, both turning points 1/5, weighted XOR on valid.)
"""

OURS: dict[str, Settings] = {
    "CoNLL": {},
    "NCBI-Disease": {"doubt": 0.0},
    "BC5CDR": {},
    "LaptopReview": {"doubt": 0.0},
}
BY_ENCODER: dict[tuple[str, str], Settings] = {("BC5CDR", "minilm"): {"doubt": 1.0}}
"""Differences from the library's defaults; chosen on gold of valid and train."""

NAMES = ("ours", "no-gold", "paper")

OTHERS: dict[tuple[str, str], Settings] = {
    ("majority-vote", "io"): {"scheme": "io"},
    ("majority-vote", "span"): {"scheme": "span"},
    ("dws", "paper"): BARE,
    ("connet", "alone"): {"hear": False},
    ("connet", "paper"): BARE | {"hear": False, "partial": False},
    ("bert-ner", "frozen"): {"finetune": False},
    ("bert-ner", "finetuned"): {"finetune": True},
}
"""Other models by variant. ("dws", "paper") and ("connet", "paper") are without our additions."""
FINETUNING: dict[str, Settings] = {"mpnet": {"epochs": 3}, "minilm": {"epochs": 5}}
"""Encoders that are trained: a large one needs fewer epochs, and takes eight times as long."""

ABLATIONS: dict[str, Settings] = {
    "after-stage-1": {"stages": "1"},
    "after-stage-2": {"stages": "1-2"},
    "naive": {"naive": True},
    "without-h": {"steepness": 1.0, "root": 1.0},
    "without-softmax": {"softmax": False},
    "without-dirichlet": {"dirichlet": False},
    "without-stage-2": {"stages": "1-3"},
    "merged-2-and-3": {"stages": "1-23"},
}
"""Sparse-CHMM without one of its parts, as in the paper's ablation study."""

TIMED: Settings = {"epochs": 5, "patience": 20}
"""Fits whose epochs are timed: five epochs of every stage, none stopped early."""
SMOKE: Settings = {"epochs": 1, "steps": 2}
"""Fits of smoke tests; applied to models that have these settings."""
ONE_EPOCH: Settings = {"epochs": 1}
"""A fit that only compiles."""
SCORE_WINDOW = "smooth"
"""Epochs over which validation scores of the first stage are averaged."""
BATCH_SIZE, WEIGHT_DECAY = "batch", "decay"
STEP_PLAIN: Settings = {"context": 0, "dropout": 0.0, "base": 0.5}
STEP_CONTEXT: Settings = {"base": 0.5}
"""Training steps that are timed: the paper's transitions, and the default's."""


def settings(recipe: str, data: str, encoder: str = "") -> Settings:
    """Settings of Sparse-CHMM for a data set; those of CoNLL where the paper has none.

    >>> settings("ours", "CoNLL", "minilm"), settings("paper", "CoNLL")["tau"]
    ({}, 1.0)
    """
    ours = OURS.get(data, {}) | BY_ENCODER.get((data, encoder), {})
    return {"ours": ours, "no-gold": {}, "paper": PLAIN | PAPER.get(data, PAPER["CoNLL"])}[recipe]


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
    values = {"steepness": h_n, "root": h_s, "exponent": g_n}
    return {name: value for name, value in values.items() if value is not None}


def em_steps(steps: int) -> Settings:
    """Exactly so many steps of expectation maximization."""
    return {"steps": steps, "tolerance": 0}

"""Settings of Sparse-CHMM by data set: the paper's, and ours.

"paper": the table of hyper-parameters, and none of our additions. Its learning rates were chosen
for the authors' features; ours come from other encoders and are standardised by the model, so a
rate does not mean the same here. "ours": the defaults of the library, except for what is named.
"free": the defaults as they are, and no gold for stopping either.
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
"""A chain with a network, and nothing that we added."""

PLAIN: Settings = BARE | {
    "start": "paper",
    "tau": 1.0,
    "exponent": 4.0,
    "initial_lr": 1e-2,
    "decay": 1e-5,
    "epochs": 100,
    "patience": 20,
}
"""The paper's model, the same on every data set: every O counts, no neighbours, nothing added, its
starting matrices and its objective. The matrices are set at once (`pretraining` is off), and moves
that BIO does not allow are forbidden (`legal` is on): both as in the library's defaults."""

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
"""Table "Hyper-parameters". `lr` is that of stages 1 and 3, which are the same in all of it; `turn`
and `later_turn` are shares of 1/L; the paper smooths stage 1 on CoNLL and BC5CDR. (OntoNotes, for
who has it: batch 32, lr 1e-4, expansion_lr 2e-5, entity, 2, 1000, 1.1, 1, 1/5, 1/5, wxor "valid".)
"""

OTHERS: dict[tuple[str, str], Settings] = {
    ("majority-vote", "io"): {"scheme": "io"},
    ("majority-vote", "span"): {"scheme": "span"},
    ("dws", "paper"): BARE,
    ("connet", "alone"): {"hear": False},
    ("connet", "paper"): BARE | {"hear": False, "partial": False},
    ("bert-ner", "frozen"): {"finetune": False},
    ("bert-ner", "finetuned"): {"finetune": True},
}
"""What other models are set to, by variant. ("dws", "paper") and ("connet", "paper") are without
anything that we added."""
EPOCHS = {"mpnet": 3, "minilm": 5}
"""Of encoders that are trained: a large one needs fewer, and takes eight times as long."""

OURS: dict[str, Settings] = {
    "CoNLL": {},
    "NCBI-Disease": {"doubt": 0.0},
    "BC5CDR": {},
    "LaptopReview": {"doubt": 0.0},
}
BY_ENCODER: dict[tuple[str, str], Settings] = {("BC5CDR", "minilm"): {"doubt": 1.0}}
"""Differences from the library's defaults; chosen on gold of valid and train."""

NAMES = ("ours", "free", "paper")


def settings(recipe: str, data: str, encoder: str = "") -> Settings:
    """Settings of Sparse-CHMM for a data set.

    >>> settings("paper", "CoNLL")["turn"], settings("ours", "CoNLL", "minilm")
    (0.5, {})
    """
    ours = OURS[data] | BY_ENCODER.get((data, encoder), {})
    return {"ours": ours, "free": {}, "paper": PLAIN | PAPER[data]}[recipe]


def others(model: str, variant: str, encoder: str = "") -> Settings:
    """Settings of any other model.

    >>> others("bert-ner", "frozen", "minilm")
    {'finetune': False, 'encoder': 'minilm'}
    """
    chosen = OTHERS.get((model, variant), {})
    if model != "bert-ner":
        return chosen
    epochs = {"epochs": EPOCHS[encoder]} if chosen["finetune"] else {}
    return chosen | {"encoder": encoder} | epochs

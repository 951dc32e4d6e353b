"""The published method as settings: what the paper's table of hyper-parameters gives for each data set."""

from __future__ import annotations

from typing import Any, Literal

PaperData = Literal["CoNLL", "OntoNotes", "NCBI-Disease", "BC5CDR", "LaptopReview"]

PLAIN: dict[str, Any] = {
    "unmarked_weight": 1.0,
    "boundary_penalty": 0.0,
    "type_penalty": 0.0,
    "new_span_penalty": 0.0,
    "probability_scale": 1.0,
    "context_window": 0,
    "dropout": 0.0,
}
"""A network chain without our additions: every unmarked token is a vote for O, and transitions depend on the token
alone."""

COMMON: dict[str, Any] = PLAIN | {
    "stages": "1-2-3",
    "initial_state": "O",
    "init": "pretrained",
    "tau": 1.0,
    "g_n": 4.0,
    "expansion": True,
    "softmax": True,
    "dirichlet": True,
    "max_epochs": 100,
    "patience": 20,
}
"""The same on every data set: stages, initial matrices, pre-training, emissions, objective and early stopping of the
paper."""

BY_DATA: dict[PaperData, dict[str, Any]] = {
    "CoNLL": {
        "batch_size": 256,
        "learning_rate": 2e-4,
        "addon_learning_rate": 4e-5,
        "use_mv": False,
        "nu_base": 10.0,
        "nu_expan": 1000.0,
        "h_n": 1.2,
        "h_s": 1.5,
        "g_r": (1 / 2, 1 / 20),
        "score_window": 5,
    },
    "OntoNotes": {
        "batch_size": 32,
        "learning_rate": 1e-4,
        "addon_learning_rate": 2e-5,
        "use_mv": False,
        "nu_base": 2.0,
        "nu_expan": 1000.0,
        "h_n": 1.1,
        "h_s": 1.0,
        "g_r": 1 / 5,
        "score_window": 1,
        "wxor_split": "valid",
    },
    "NCBI-Disease": {
        "batch_size": 128,
        "learning_rate": 1e-3,
        "addon_learning_rate": 2e-4,
        "use_mv": True,
        "nu_base": 2.0,
        "nu_expan": 1500.0,
        "h_n": 1.2,
        "h_s": 3.0,
        "g_r": 1 / 20,
        "score_window": 1,
    },
    "BC5CDR": {
        "batch_size": 128,
        "learning_rate": 1e-3,
        "addon_learning_rate": 2e-4,
        "use_mv": False,
        "nu_base": 2.0,
        "nu_expan": 1500.0,
        "h_n": 0.9,
        "h_s": 1.1,
        "g_r": 1 / 10,
        "score_window": 5,
    },
    "LaptopReview": {
        "batch_size": 256,
        "learning_rate": 1e-4,
        "addon_learning_rate": 2e-5,
        "use_mv": True,
        "nu_base": 2.0,
        "nu_expan": 1000.0,
        "h_n": 0.8,
        "h_s": 1.5,
        "g_r": 1 / 20,
        "score_window": 1,
    },
}
"""The paper's table of hyper-parameters. `learning_rate` is that of stages 1 and 3, which are equal in the table; its
reliability level follows from the number of types (`training.num_scores`). `score_window` is that of the authors'
scripts: they average the validation scores of stage 1 over five epochs on CoNLL and BC5CDR."""


def paper_settings(data: PaperData) -> dict[str, Any]:
    """Settings of Sparse-CHMM that give the published method on a data set.

    >>> paper_settings("CoNLL")["g_r"], paper_settings("BC5CDR")["h_n"]
    ((0.5, 0.05), 0.9)
    """
    return COMMON | BY_DATA[data]

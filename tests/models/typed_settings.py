"""What type checkers know of the settings. `make types` checks this file; nothing in it is run.

A wrong name or type carries the error that mypy must report. If mypy stops reporting it, the comment is unused, and the
check fails.
"""

from __future__ import annotations

from typing import Literal, assert_type

import convener as cv


def names_and_types_of_settings() -> None:
    cv.SparseCHMM(h_n=1.0, g_r=(0.5, 0.05), nu_base=None, init="paper", unmarked_weight=0.5, context_window=1, seed=1)
    cv.HMM(max_iter=5, init_labels="union", unmarked_weight=None)
    cv.MajorityVote(scheme="span", tie_break="random")
    cv.FrozenTagger(encoder="hashing", max_epochs=3, class_weights={"PER": 2.0}, use_crf=False)
    assert_type(cv.SparseCHMM().config.h_n, float)
    assert_type(cv.SparseCHMM.paper("CoNLL").config.init, Literal["votes", "paper", "pretrained"])
    assert_type(cv.ConNet().config.use_votes, bool)
    assert_type(cv.LinkedHMM().config.link_prefix, str)
    assert_type(cv.FrozenTagger().config.hidden_size, int)


def unknown_names() -> None:
    cv.ALT(rounds=1)  # type: ignore[call-arg]
    cv.Auto(threads=1)  # type: ignore[call-arg]
    cv.BSC(prior=1.0)  # type: ignore[call-arg]
    cv.BertNER(epochs=1)  # type: ignore[call-arg]
    cv.BestConsensus(scheme="io")  # type: ignore[call-arg]
    cv.CHMM(emission_lr=1.0)  # type: ignore[call-arg]
    cv.CHMMFE(init="paper")  # type: ignore[call-arg]
    cv.ConNet(tau=1.0)  # type: ignore[call-arg]
    cv.DWS(tau=1.0)  # type: ignore[call-arg]
    cv.DawidSkene(steps=1)  # type: ignore[call-arg]
    cv.HMM(steps=5)  # type: ignore[call-arg]
    cv.LinkedHMM(prefix="x")  # type: ignore[call-arg]
    cv.MajorityVote(ties="first")  # type: ignore[call-arg]
    cv.NeuralHiddenCRF(tau=1.0)  # type: ignore[call-arg]
    cv.Snorkel(balance="uniform")  # type: ignore[call-arg]
    cv.SparseCHMM(h_m=1.0)  # type: ignore[call-arg]
    cv.FinetunedTagger(lr=1e-5)  # type: ignore[call-arg]
    cv.FrozenTagger(spelling=3)  # type: ignore[call-arg]
    cv.SpacyTagger(lang="en")  # type: ignore[call-arg]
    cv.HMM().config.steps  # type: ignore[attr-defined]  # noqa: B018


def wrong_types() -> None:
    cv.SparseCHMM(h_n="1.2")  # type: ignore[arg-type]
    cv.SparseCHMM(g_r=(0.5, 0.05, 0.05))  # type: ignore[arg-type]
    cv.SparseCHMM(init="gold")  # type: ignore[arg-type]
    cv.HMM(max_iter=2.5)  # type: ignore[arg-type]
    cv.HMM(5)  # type: ignore[call-arg]
    cv.FrozenTagger(use_crf="yes")  # type: ignore[arg-type]

"""The curves of h, f and g, drawn by the functions the model computes with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from benchmarks import pages
from benchmarks.jobs import Options
from convener.models.sparse_chmm import prior

LABELS, TURN, EXPONENT = 5, 0.3, 2.0
"""Of f and g, as in the caption of the paper's figure."""
SPLIT = 0.3
"""Turning point of h; the paper's figure does not name its own."""
STEEPNESS = (0.5, 0.8, 1.0, 1.5, 2.0, 3.0)
ROOTS = (0.5, 1.0, 1.5, 2.0, 3.0)
EXPONENTS = (1.5, 2.0, 3.0, 4.0)


def page(options: Options) -> None:
    """Part `curves`: no fits."""
    blocks = [
        "h scales reliabilities: n > 1 makes small ones smaller and large ones larger, s > 1 makes "
        f"all larger. Turning point {SPLIT} on the scale of a^(1/s).",
        _scaling(),
        f"f spreads a row of the emission prior over its labels, g is what O gets of the row of an "
        f"entity label: L = {LABELS}, turning point {TURN}; f with n = {EXPONENT:g}.",
        _expansion(),
    ]
    pages.write("paper/curves", "The functions h, f and g", blocks)


def _scaling() -> Path | None:
    plt = pages.pyplot()
    if plt is None:
        return None
    a = torch.linspace(0, 1, 201, dtype=torch.float64)
    figure, (left, right) = plt.subplots(1, 2, figsize=(6, 2.6), sharey=True)
    for n in STEEPNESS:
        left.plot(a, prior.scale_reliability(a, h_n=n, h_s=1.0, h_r=SPLIT), label=f"n = {n:g}")
    for s in ROOTS:
        right.plot(a, prior.scale_reliability(a, h_n=2.0, h_s=s, h_r=SPLIT), label=f"s = {s:g}")
    _finish(left, "h(a), s = 1")
    _finish(right, "h(a), n = 2")
    return pages.save_plot(figure, "paper/curves-h")


def _expansion() -> Path | None:
    plt = pages.pyplot()
    if plt is None:
        return None
    a = torch.linspace(0, 1, 201, dtype=torch.float64)
    rows = prior.base_prior_rows(a[:, None, None].expand(-1, 1, LABELS), g_n=EXPONENT, g_r=TURN)
    figure, (left, right) = plt.subplots(1, 2, figsize=(6, 2.6), sharey=True)
    left.plot(a, rows.diagonal[:, 0, 1], label="the label itself")
    left.plot(a, rows.to_other[:, 0, 0], label="row of O, each other label")
    left.plot(a, rows.to_o[:, 0, 1], label="O: g(a)")
    left.plot(a, rows.to_other[:, 0, 1], label="each other entity label")
    for n in EXPONENTS:
        g = prior.emit_to_o(a, num_labels=LABELS, g_n=n, g_r=TURN)
        right.plot(a, g, label=f"n = {n:g}")
    _finish(left, "f(a)", place="upper center")
    _finish(right, "g(a)")
    return pages.save_plot(figure, "paper/curves-f-g")


def _finish(axes: Any, title: str, place: str = "best") -> None:
    axes.set_title(title)
    axes.set_xlabel("a")
    axes.legend(frameon=False, fontsize=6, loc=place)

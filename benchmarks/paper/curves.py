"""The curves of h, f and g, drawn with the functions of the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from benchmarks.harness.jobs import Options
from benchmarks.harness.results import pyplot, save_figure
from convener.models.sparse_chmm import prior

LABELS, G_R, G_N = 5, 0.3, 2.0
"""Of f and g, as in the caption of the paper's figure."""
H_R = 0.3
"""Turning point of h; the paper's figure does not name its own."""
H_N_VALUES = (0.5, 0.8, 1.0, 1.5, 2.0, 3.0)
H_S_VALUES = (0.5, 1.0, 1.5, 2.0, 3.0)
G_N_VALUES = (1.5, 2.0, 3.0, 4.0)


def page(options: Options) -> None:
    """Part `curves`: no fits."""
    blocks = [
        "h scales reliabilities: n > 1 makes small ones smaller and large ones larger, s > 1 makes "
        f"all larger. Turning point {H_R} on the scale of a^(1/s).",
        _scaling(options),
        f"f distributes a row of the emission prior over its labels; g is the share of O in the row of an "
        f"entity label: L = {LABELS}, turning point {G_R}; f with n = {G_N:g}.",
        _expansion(options),
    ]
    options.write_page("paper/curves", "The functions h, f and g", blocks)


def _scaling(options: Options) -> Path | None:
    plt = pyplot()
    if plt is None:
        return None
    a = torch.linspace(0, 1, 201, dtype=torch.float64)
    figure, (left, right) = plt.subplots(1, 2, figsize=(6, 2.6), sharey=True)
    for n in H_N_VALUES:
        left.plot(a, prior.scale_reliability(a, h_n=n, h_s=1.0, h_r=H_R), label=f"n = {n:g}")
    for s in H_S_VALUES:
        right.plot(a, prior.scale_reliability(a, h_n=2.0, h_s=s, h_r=H_R), label=f"s = {s:g}")
    _finish(left, "h(a), s = 1")
    _finish(right, "h(a), n = 2")
    return save_figure(figure, options.results / "paper/curves-h.svg")


def _expansion(options: Options) -> Path | None:
    plt = pyplot()
    if plt is None:
        return None
    a = torch.linspace(0, 1, 201, dtype=torch.float64)
    rows = prior.base_prior_rows(a[:, None, None].expand(-1, 1, LABELS), g_n=G_N, g_r=G_R)
    figure, (left, right) = plt.subplots(1, 2, figsize=(6, 2.6), sharey=True)
    left.plot(a, rows.diagonal[:, 0, 1], label="the label itself")
    left.plot(a, rows.to_other[:, 0, 0], label="row of O, each other label")
    left.plot(a, rows.to_o[:, 0, 1], label="O: g(a)")
    left.plot(a, rows.to_other[:, 0, 1], label="each other entity label")
    for n in G_N_VALUES:
        g = prior.emit_to_o(a, num_labels=LABELS, g_n=n, g_r=G_R)
        right.plot(a, g, label=f"n = {n:g}")
    _finish(left, "f(a)", legend="upper center")
    _finish(right, "g(a)")
    return save_figure(figure, options.results / "paper/curves-f-g.svg")


def _finish(axes: Any, title: str, legend: str = "best") -> None:
    axes.set_title(title)
    axes.set_xlabel("a")
    axes.legend(frameon=False, fontsize=6, loc=legend)

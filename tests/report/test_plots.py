"""Figures as files."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import convener as cv
from convener.errors import ConfigError, DataError, MissingDependencyError
from convener.report import figures
from convener.report.figures import (
    Figure,
    Heatmap,
    IntervalPlot,
    IntervalRow,
    LinePlot,
    Point,
    ReliabilityDiagram,
    ScatterPlot,
)
from convener.report.plots import RENDERERS, write_plot
from convener.report.run_summary import RunSummary, summarize_run
from tests.report.fake_model import FakeModel

HEAT = Heatmap(title="heat", caption="", rows=["a", "b"], columns=["c"], values=np.array([[0.9], [np.nan]]))
FIGURES: list[Figure] = [
    HEAT,
    ScatterPlot(title="dots", caption="", points=[Point(0.1, 0.2, "p", "X")], x_title="x", y_title="y"),
    IntervalPlot(title="ranges", caption="", rows=[IntervalRow("s", "X", 0.1, 0.2, 0.3, 0.25)], x_title="F1"),
    IntervalPlot(title="bare", caption="", rows=[IntervalRow("s", "X", 0.1, 0.2, 0.3, None)], x_title="F1"),
    LinePlot(title="line", caption="", curves={"loss": [(0, 3.0), (1, 2.0)]}, x_title="x", y_title="y"),
    ReliabilityDiagram(title="bins", caption="", curves={"spans": [(0.9, 0.8, 7)], "tokens": []}),
]


def texts(path: Path) -> str:
    """Content of a valid SVG file, which repeats texts as comments."""
    ElementTree.parse(path)
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "magic"),
    [
        ("f.png", b"\x89PNG\r\n\x1a\n"),
        ("f.PNG", b"\x89PNG"),
        ("f.svg", b"<?xml"),
        ("f.pdf", b"%PDF-"),
    ],
)
def test_the_suffix_selects_the_format(tmp_path: Path, name: str, magic: bytes) -> None:
    write_plot([HEAT], tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(magic)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.title)
def test_every_kind_of_figure_is_drawn(tmp_path: Path, figure: Figure) -> None:
    write_plot([figure], str(tmp_path / "f.svg"))
    assert f"<!-- {figure.title} -->" in texts(tmp_path / "f.svg")


def test_every_kind_of_figure_has_a_renderer() -> None:
    assert set(RENDERERS) == set(Figure.__subclasses__())


def test_only_small_heatmaps_show_numbers(tmp_path: Path) -> None:
    write_plot([HEAT], tmp_path / "small.svg")
    assert "<!-- 0.90 -->" in texts(tmp_path / "small.svg")
    names = [f"n{number}" for number in range(13)]
    wide = Heatmap(title="wide", caption="", rows=names, columns=names, values=np.full((13, 13), 0.5))
    write_plot([wide], tmp_path / "wide.svg")
    assert "<!-- 0.50 -->" not in texts(tmp_path / "wide.svg")


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_several_figures_in_one_file(tmp_path: Path, count: int) -> None:
    write_plot(FIGURES[:count], tmp_path / "f.svg")
    assert all(f"<!-- {figure.title} -->" in texts(tmp_path / "f.svg") for figure in FIGURES[:count])


@pytest.mark.parametrize("kind", figures.FIGURES)
def test_all_figures_of_an_hmm(tmp_path: Path, hmm: RunSummary, kind: str) -> None:
    found = figures.FIGURES[kind](hmm)
    drawn = [found] if isinstance(found, Figure) else list(found or [])
    write_plot(drawn[:4], tmp_path / "f.svg")
    assert f"<!-- {drawn[0].title} -->" in texts(tmp_path / "f.svg")


def test_figures_of_a_model_without_predictions(tmp_path: Path) -> None:
    data = cv.Dataset.from_spans(["X"], [["a"]], {"s": [[]]}, gold=[[(0, 1, "X")]])
    summary = summarize_run(FakeModel(labels=np.zeros(1, np.int16)), data)
    for kind in ("calibration", "confusion", "transitions", "reliability"):
        found = figures.FIGURES[kind](summary)
        drawn = [found] if isinstance(found, Figure) else list(found or [])
        write_plot(drawn, tmp_path / f"{kind}.svg")


@pytest.mark.parametrize("name", ["f", "f.jpg", "f.svg.txt", "png"])
def test_other_suffixes_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"ending in \.png, \.svg, \.pdf"):
        write_plot([HEAT], tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_plot_is_written_atomically(tmp_path: Path) -> None:
    path = tmp_path / "f.svg"
    write_plot([HEAT], path)
    before = path.read_bytes()
    broken = Heatmap(title="\ud800", caption="", rows=["a"], columns=["b"], values=np.array([[0.5]]))
    with pytest.raises((TypeError, ValueError)):  # fails while drawing: no font has this character
        write_plot([broken], path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["f.svg"]
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(DataError, match="it is a folder"):
        write_plot([HEAT], tmp_path / "folder.png")


@pytest.mark.parametrize("name", ["$x", "$\\nonsense{$", "a $5$ b", "<b>&", "--"])
def test_names_are_not_math(tmp_path: Path, name: str) -> None:
    ranges = IntervalPlot(title=name, caption="", rows=[IntervalRow(name, name, 0, 0.5, 1, None)], x_title=name)
    points = [Point(0.5, 0.5, name, name)]
    dots = ScatterPlot(title=name, caption="", points=points, x_title=name, y_title=name)
    heat = Heatmap(title=name, caption="", rows=[name], columns=[name], values=np.ones((1, 1)))
    write_plot([ranges, dots, heat], tmp_path / "f.svg")
    assert texts(tmp_path / "f.svg").count("<!-- ") > 5


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"a plot needs matplotlib: .*convener\[report\]"):
        write_plot([HEAT], tmp_path / "f.png")
    assert list(tmp_path.iterdir()) == []

"""Highlighted sentences: what is shown is the text and nothing but the text, and everything is escaped."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
from hypothesis import given

from convener.data.dataset import Dataset
from convener.data.highlight import HTML_SENTENCES, MAX_WIDTH, to_line, type_hue
from convener.data.predictions import Predictions
from tests.generators import datasets, predictions

EVIL = "<script>alert('x')</script>"


class Reader(HTMLParser):
    """The text of each block, its marks, and all tags and attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.opened: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.feed(html)
        self.close()
        assert self.tags == [], "every tag is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.opened.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if dict(attrs).get("dir") == "auto":
            self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.tags.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.texts and "span" not in self.tags and "div" in self.tags[1:]:
            self.texts[-1] += data


def printable(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def normalized(text: str) -> str:
    """As HTML parsers normalize line ends and the null character."""
    return printable(text).replace("\r\n", "\n").replace("\r", "\n")


@given(predictions())
def test_html_of_predictions_contains_each_text_once(labels: Predictions) -> None:
    page = Reader(labels._repr_html_())
    assert [normalized(text) for text in page.texts] == [normalized(item.text) for item in labels]
    assert page.opened <= {"div", "mark", "span"}
    assert page.attributes <= {"style", "dir"}


@given(datasets())
def test_html_of_a_dataset_contains_each_text_and_the_marks_of_each_source(data: Dataset) -> None:
    expected = []
    for item in data:
        expected.append(item.text)
        expected += [" " + " ".join(span.text for span in spans) for spans in item.votes.values() if spans]
    page = Reader(data._repr_html_())
    assert [normalized(text) for text in page.texts] == [normalized(text) for text in expected]
    assert page.opened <= {"div", "mark", "span"}


@given(datasets())
def test_the_printed_form_is_a_summary_and_short_lines(data: Dataset) -> None:
    first, *lines = repr(data).splitlines()
    assert first == printable_summary(data)
    assert all(len(line) <= MAX_WIDTH for line in lines)
    repr(data).encode("utf-8")


def printable_summary(data: Dataset) -> str:
    return to_line(data.summary(), width=10**6)


def test_names_labels_and_text_are_escaped() -> None:
    data = Dataset.from_spans([EVIL], [[EVIL]], {EVIL: [[(0, 1, EVIL)]]}, gold=[[(0, 1, EVIL)]])
    labels = Predictions(data=data, labels=np.array([1], np.int16), model=EVIL)
    for html in (data._repr_html_(), labels._repr_html_(), data[0]._repr_html_(), labels[0]._repr_html_()):
        assert "<script" not in html
        assert "&lt;script&gt;alert(&#x27;x&#x27;)" in html


def test_scores_are_shown_and_further_sentences_are_counted() -> None:
    data = Dataset.from_spans(["PER"], [["Ada"]] * (HTML_SENTENCES + 2), {})
    labels = Predictions(data=data, labels=np.ones(len(data), np.int16))
    labels = replace(labels, span_scores=np.full(len(data), 0.875, np.float32))
    html = labels._repr_html_()
    assert html.count("<mark") == HTML_SENTENCES
    assert html.count("PER 0.88") == HTML_SENTENCES
    assert "and 2 more sentences" in html
    assert "and 1 more sentence<" in labels[: HTML_SENTENCES + 1]._repr_html_()
    assert "more sentence" not in labels[:HTML_SENTENCES]._repr_html_()


def test_the_printed_form_shows_the_first_sentences_with_marks() -> None:
    tokens = [["a"], ["Ada", "left"], ["b"], ["Bo"]]
    votes = {"names": [[], [(0, 1, "PER")], [], []], "gold": [[], [], [], [(0, 1, "PER")]]}
    data = Dataset.from_spans(["PER"], tokens, votes, gold=[[], [(0, 2, "PER")], [], []])
    assert repr(data).splitlines()[1:] == [
        "1: Ada left",
        "     gold   Ada left (PER)",
        "     names  Ada (PER)",
        "3: Bo",
        "     gold  Bo (PER)",
    ]
    unmarked = Dataset.from_spans(["PER"], tokens, {})
    assert repr(unmarked).splitlines()[1:] == ["0: a", "1: Ada left", "2: b"]


def test_sources_beyond_ten_are_counted() -> None:
    votes = {f"s{number}": [[(0, 1, "PER")]] for number in range(13)}
    lines = repr(Dataset.from_spans(["PER"], [["Ada"]], votes)).splitlines()
    assert (len(lines), lines[-1]) == (13, "     and 3 more sources")


def test_a_line_fits_a_terminal() -> None:
    assert to_line("a\n\ud800\tb ") == "a \\ud800 b"
    assert to_line("x" * 300) == "x" * (MAX_WIDTH - 1) + "…"


def test_types_have_different_hues() -> None:
    assert len({type_hue(number) for number in range(12)}) == 12

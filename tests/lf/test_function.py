"""The contract of a labeling function."""

from __future__ import annotations

from typing import Any

import pytest

import convener as cv
from convener.data.tags import ABSTAIN
from convener.errors import ConfigError, ConvenerWarning, DataError
from convener.lf.doc import Doc
from convener.lf.function import LabelingFunction, labeling_function


@labeling_function(["ORG"], prior_precision=0.8, on_silence="abstain")
def shouting(words: Doc) -> Any:
    if not len(words):
        return ABSTAIN
    return ((i, i + 1, "ORG") for i, word in enumerate(words) if word.isupper())


def test_the_decorator_names_and_sets_it() -> None:
    assert isinstance(shouting, cv.LabelingFunction)
    assert (shouting.name, shouting.labels) == ("shouting", ("ORG",))
    assert (shouting.prior_precision, shouting.on_silence) == (0.8, "abstain")
    assert repr(shouting) == "LabelingFunction('shouting', labels=ORG)"
    assert labeling_function(["A"], name="b")(lambda view: None).name == "b"


def test_it_is_called_with_words_a_text_or_a_view() -> None:
    for words in (["NASA", "flew"], "NASA flew", Doc(["NASA", "flew"])):
        assert shouting(words) == [(0, 1, "ORG")]
    assert shouting([]) is None


def test_a_call_warns_of_what_a_report_would_tell() -> None:
    wild = labeling_function(["A"], name="wild")(lambda view: [(0, 9, "A")])
    with pytest.warns(ConvenerWarning, match="wild: invalid: 0-9 A is not a range"):
        assert wild(["a"]) == []


def test_find_may_be_left_out_where_there_is_find_all() -> None:
    many = LabelingFunction(name="many", labels=("A",), batch_func=lambda views: [[(0, len(v), "A")] for v in views])
    assert many(["a", "b"]) == [(0, 2, "A")]
    assert many.label_batch([Doc(["a"]), Doc(["a", "b"])]) == [[(0, 1, "A")], [(0, 2, "A")]]


def test_find_all_answers_for_each_text() -> None:
    short = LabelingFunction(name="short", labels=("A",), batch_func=lambda views: [[]])
    with pytest.raises(DataError, match="each of 2 texts, got 1"):
        short.label_batch([Doc([]), Doc([])])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"labels": "ORG"}, "labels are a list"),
        ({"labels": ()}, "at least one entity type"),
        ({"name": ""}, "needs a name"),
        ({"offsets": "bytes"}, "offsets must be one of tokens, chars; got 'bytes'"),
        ({"scope": "corpus"}, "scope must be one of"),
        ({"on_silence": "o"}, "on_silence must be one of"),
        ({"on_overlap": "shortest"}, "on_overlap must be one of"),
        ({"on_misaligned": "grow"}, "on_misaligned must be one of"),
        ({"prior_precision": 1.0}, r"precision must be in \(0, 1\), got 1.0"),
        ({"func": None}, "give find, find_all or both"),
    ],
)
def test_what_it_is_made_of_is_checked(changes: dict[str, Any], said: str) -> None:
    given = {"name": "f", "labels": ("A",), "func": lambda view: None} | changes
    with pytest.raises((ConfigError, DataError), match=said):
        LabelingFunction(**given)


def test_a_misspelt_setting_is_named() -> None:
    with pytest.raises(ConfigError, match="did you mean 'offsets'"):
        labeling_function(["A"], offset="chars")


def test_the_digest_is_of_what_decides_spans() -> None:
    def make(**settings: Any) -> str:
        return labeling_function(["A"], **settings)(lambda view: [(0, 1, "A")]).fingerprint()

    same = make(name="f")
    assert make(name="g", prior_precision=0.5, on_silence="abstain") == same
    for settings in ({"offsets": "chars"}, {"scope": "document"}, {"on_overlap": "first"}):
        assert make(name="f", **settings) != same
    assert make(name="f", version="1") == make(name="f", version="1") != make(name="f", version="2")

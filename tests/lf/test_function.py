"""The contract of a labeling function."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import convener as cv
from convener.data.sentences import TextSpan
from convener.data.tags import ABSTAIN
from convener.errors import ConfigError, ConvenerWarning, DataError
from convener.lf.doc import Doc
from convener.lf.function import LabelingFunction, labeling_function


@labeling_function(["ORG"], prior_precision=0.8, unmarked="outside")
def acronym(words: Doc) -> Any:
    if not len(words):
        return ABSTAIN
    return ((i, i + 1, "ORG") for i, word in enumerate(words) if word.isupper())


def test_the_decorator_sets_name_and_settings() -> None:
    assert isinstance(acronym, cv.LabelingFunction)
    assert (acronym.name, acronym.labels) == ("acronym", ("ORG",))
    assert (acronym.prior_precision, acronym.unmarked) == (0.8, "outside")
    assert repr(acronym) == "LabelingFunction('acronym', labels=ORG)"
    assert labeling_function(["A"], name="b")(lambda doc: None).name == "b"


def test_it_accepts_tokens_or_a_doc() -> None:
    for words in (["NASA", "flew"], Doc(["NASA", "flew"])):
        assert acronym(words) == [(0, 1, "ORG")]
    assert acronym([]) is None


def test_called_on_a_text_it_shows_what_it_marks() -> None:
    marked = acronym("In  1999 NASA\nflew.")
    assert marked == [TextSpan("NASA", "ORG", 2, 3, 9, 13)]
    assert repr(marked) == "In  1999 [NASA](ORG) flew."
    assert marked.sentence.tokens == ("In", "1999", "NASA", "flew", ".")
    assert marked.sentence.spans == tuple(marked)
    assert "NASA<span" in marked._repr_html_()
    assert acronym("") is None
    assert acronym("none here") == []


def test_what_it_marks_is_copied_and_pickled() -> None:
    marked = acronym("NASA flew")
    for copied in (copy.deepcopy(marked), pickle.loads(pickle.dumps(marked))):
        assert copied == marked
        assert copied.sentence == marked.sentence


def test_a_call_warns_about_issues() -> None:
    wild = labeling_function(["A"], name="wild")(lambda doc: [(0, 9, "A")])
    with pytest.warns(ConvenerWarning, match=r"wild: invalid: span 0-9 \(A\) is not a range"):
        assert wild(["a"]) == []


def test_func_is_optional_if_batch_func_is_given() -> None:
    many = LabelingFunction(name="many", labels=("A",), batch_func=lambda docs: [[(0, len(v), "A")] for v in docs])
    assert many(["a", "b"]) == [(0, 2, "A")]
    assert many.label_batch([Doc(["a"]), Doc(["a", "b"])]) == [[(0, 1, "A")], [(0, 2, "A")]]


def test_batch_func_must_return_one_output_per_text() -> None:
    short = LabelingFunction(name="short", labels=("A",), batch_func=lambda docs: [[]])
    with pytest.raises(DataError, match="each of 2 texts, got 1"):
        short.label_batch([Doc([]), Doc([])])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": "ORG"}, "labels must be a list"),
        ({"labels": ()}, "at least one entity type"),
        ({"name": ""}, "needs a name"),
        ({"offsets": "bytes"}, "offsets must be one of tokens, chars; got 'bytes'"),
        ({"scope": "corpus"}, "scope must be one of"),
        ({"unmarked": "o"}, "unmarked must be one of"),
        ({"on_overlap": "shortest"}, "on_overlap must be one of"),
        ({"on_misaligned": "grow"}, "on_misaligned must be one of"),
        ({"prior_precision": 1.0}, r"prior_precision must be in \(0, 1\), got 1.0"),
        ({"func": None}, "expected func, batch_func or both, got neither"),
    ],
)
def test_fields_are_validated(changes: dict[str, Any], message: str) -> None:
    given = {"name": "f", "labels": ("A",), "func": lambda doc: None} | changes
    with pytest.raises((ConfigError, DataError), match=message):
        LabelingFunction(**given)


def test_a_misspelt_setting_is_reported() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'offset'"):
        labeling_function(["A"], offset="chars")  # type: ignore[call-arg]


def test_the_fingerprint_covers_what_determines_the_spans() -> None:
    def make(**settings: Any) -> str:
        return labeling_function(["A"], **settings)(lambda doc: [(0, 1, "A")]).fingerprint()

    same = make(name="f")
    assert make(name="g", prior_precision=0.5, unmarked="outside") == same
    for settings in ({"offsets": "chars"}, {"scope": "document"}, {"on_overlap": "first"}):
        assert make(name="f", **settings) != same
    assert make(name="f", version="1") == make(name="f", version="1") != make(name="f", version="2")

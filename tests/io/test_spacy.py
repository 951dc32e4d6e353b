"""spaCy's DocBin: round trips, external files, malformed files."""

from __future__ import annotations

import gc
import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin, Span, SpanGroup
from spacy.training import Corpus as SpacyCorpus
from spacy.training import Example

from convener import io as cio
from convener.data.dataset import Dataset, Text
from convener.data.issues import Issues
from convener.data.predictions import Predictions
from convener.data.ragged import StringArray
from convener.errors import DataError, FormatError
from convener.io import spacy as spacy_format
from convener.io.doc_layout import exact_layout
from convener.io.formats import LabeledData, ReadOptions
from convener.io.raw_text import tokenize as cio_tokenize
from tests.generators import WORDS, Kind, contents, returned, same

pytestmark = pytest.mark.slow


def save(tmp_path: Path, *docs: Doc, **options: Any) -> Path:
    path = tmp_path / "d.spacy"
    DocBin(docs=docs, **options).to_disk(path)
    return path


def make_doc(*words: str, groups: dict[str, list[tuple[int, int, str]]] | None = None) -> Doc:
    doc = Doc(spacy.blank("en").vocab, words=list(words))
    for name, tuples in (groups or {}).items():
        spans = [Span(doc, start, end, label=label) for start, end, label in tuples]
        doc.spans[name] = SpanGroup(doc, name=name, spans=spans)
    return doc


@settings(max_examples=60, deadline=None)
@given(content=contents(Kind(partial=True, illegal=True)))
def test_content_round_trips(content: LabeledData, tmp_path_factory: pytest.TempPathFactory) -> None:
    if isinstance(content, Predictions) and "convener" in content.data.sources:
        return
    path = tmp_path_factory.mktemp("spacy") / "d.spacy"
    assert same(returned(content, spacy_format.FORMAT, path), content)


def test_illegal_gold_round_trips(tmp_path: Path) -> None:
    data = Dataset.from_spans(["A"], [["x", "y"]], {}).with_gold(np.array([2, 2], np.int16))
    assert returned(data, spacy_format.FORMAT, tmp_path / "d.spacy") == data


@pytest.fixture
def predictions() -> Predictions:
    sentence = "Ada Lovelace wrote it."
    chars = np.array([(0, 3), (4, 12), (13, 18), (19, 21), (21, 22)], np.int32)
    data = Dataset.from_spans(
        ["PER"],
        [["Ada", "Lovelace", "wrote", "it", "."], ["Nobody"]],
        {"names": [[(0, 2, "PER")], []], "crowd": [[(0, 1, "PER")], None]},
    )
    text = Text(
        StringArray.from_list([sentence, "Nobody"]),
        np.concatenate([chars, np.array([(0, 6)], np.int32)]),
        np.array([0, 23], np.int64),
    )
    return Predictions(
        data=replace(data, text=text),
        labels=np.array([1, 2, 0, 0, 0, 0], np.int16),
        span_scores=np.array([0.75], np.float32),
        model="by hand",
    )


def test_spacy_sees_entities_groups_and_scores(tmp_path: Path, predictions: Predictions) -> None:
    cio.write(predictions, tmp_path / "d.spacy")
    docs = list(DocBin().from_disk(tmp_path / "d.spacy").get_docs(spacy.blank("en").vocab))
    assert [doc.text for doc in docs] == ["Ada Lovelace wrote it.", "Nobody"]
    assert [(span.text, span.label_) for span in docs[0].ents] == [("Ada Lovelace", "PER")]
    assert list(docs[0].spans) == ["names", "crowd", "convener"]
    assert docs[0].spans["convener"].attrs["scores"] == [0.75]
    assert [span.text for span in docs[0].spans["crowd"]] == ["Ada"]
    assert docs[1].spans["crowd"].attrs == {"unmarked": "abstain", "abstain": True}
    assert docs[1].has_annotation("ENT_IOB")


def test_a_written_file_trains_a_spacy_pipeline(tmp_path: Path, predictions: Predictions) -> None:
    cio.write(predictions, tmp_path / "d.spacy")
    nlp = spacy.blank("en")
    examples = list(SpacyCorpus(tmp_path / "d.spacy")(nlp))
    assert [len(example.reference.ents) for example in examples] == [1, 0]
    assert examples[0].get_aligned_ner() == ["B-PER", "L-PER", "O", "O", "O"]
    nlp.add_pipe("ner")
    nlp.initialize(lambda: examples)
    assert nlp.update(examples)["ner"] > 0
    assert Example(nlp.make_doc("Nobody"), examples[1].reference).get_aligned_ner() == ["O"]


def test_text_with_unusual_white_space_round_trips(tmp_path: Path) -> None:
    data = Dataset.from_spans(["A"], [["a", "b"], []], {})
    text = Text(
        StringArray.from_list([" a\u3000 b", " "]),
        np.array([[1, 2], [4, 5]], np.int32),
        np.zeros(2, np.int64),
    )
    data = replace(data, text=text)
    assert returned(data, spacy_format.FORMAT, tmp_path / "d.spacy") == data


WHITE_SPACE = [" ", "  ", "   ", "\t", "\n", " \n ", "\u00a0", "\u200b", "\u3000", "\r\n", ""]


@settings(max_examples=100, deadline=None)
@given(parts=st.lists(st.tuples(st.sampled_from(WHITE_SPACE), st.sampled_from(WORDS)), min_size=1), end=st.booleans())
def test_the_text_of_a_doc_is_the_text_that_went_in(
    tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[str, str]], end: bool
) -> None:
    text = "".join(gap + word for gap, word in parts if word != "\ud800") + " " * end
    data = cio_tokenize({"d": text}).with_types(["A"])
    if not len(data):
        return
    labels = np.zeros(len(data.tokens), np.int16)
    for start, stop in pairwise(data.offsets.tolist()):
        labels[start : start + 3] = [1, 2, 2][: min(3, stop - start)]
    predicted = Predictions(data=data, labels=labels)
    path = tmp_path_factory.mktemp("spacy") / "d.spacy"
    assert same(returned(predicted, spacy_format.FORMAT, path), predicted)
    assert data.text is not None
    for number, doc in enumerate(DocBin().from_disk(path).get_docs(spacy.blank("en").vocab)):
        assert doc.text == data.text.sentences[number]
        place = int(data.text.doc_offsets[number])
        assert text[place : place + len(doc.text)] == doc.text
        first, last = int(data.offsets[number]), min(3, int(data.lengths[number]))
        offsets = data.text.token_offsets[first : first + last]
        assert [(span.start_char, span.end_char) for span in doc.ents] == [(offsets[0, 0], offsets[-1, 1])]


@settings(max_examples=100, deadline=None)
@given(parts=st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([" ", "  ", "\n", " \n ", "\t "])), min_size=1))
def test_white_space_becomes_the_tokens_of_spacys_tokenizer(parts: list[tuple[str, str]]) -> None:
    text = "".join(map("".join, parts))
    words = [match.span() for match in re.finditer(r"\S+", text)]
    layout = exact_layout(text, np.array(words, np.int32))
    expected = [(token.text, bool(token.whitespace_)) for token in spacy.blank("xx")(text)]
    assert layout is not None
    assert list(zip(layout.words, layout.spaces, strict=True)) == expected
    assert [layout.words[position] for position in layout.positions] == text.split()


def test_tokens_that_differ_from_the_text_leave_it_as_it_is(tmp_path: Path) -> None:
    data = Dataset.from_spans(["A"], [["``", "Ada", "''"]], {"s": [[(1, 2, "A")]]}, gold=[[(0, 2, "A")]])
    text = Text(StringArray.from_list(['"Ada  "']), np.array([[0, 1], [1, 4], [6, 7]], np.int32), np.zeros(1, np.int64))
    data = replace(data, text=text)
    assert returned(data, spacy_format.FORMAT, tmp_path / "d.spacy") == data
    doc = next(iter(DocBin().from_disk(tmp_path / "d.spacy").get_docs(spacy.blank("en").vocab)))
    assert (doc.text, doc.ents[0].text, doc.spans["s"][0].text) == ('"Ada  "', '"Ada', "Ada")


def test_a_pipeline_trains_on_text_with_unusual_white_space(tmp_path: Path) -> None:
    data = cio_tokenize({"d": "Ada\u00a0 Lovelace\t met  Bob ."}).with_types(["PER"])
    labels = np.array([1, 2, 0, 1, 0], np.int16)
    cio.write(Predictions(data=data, labels=labels), tmp_path / "d.spacy")
    nlp = spacy.blank("en")
    example = next(iter(SpacyCorpus(tmp_path / "d.spacy")(nlp)))
    assert [span.text for span in example.reference.ents] == ["Ada\u00a0 Lovelace", "Bob"]
    nlp.add_pipe("ner")
    nlp.initialize(lambda: [example])
    assert nlp.update([example])["ner"] > 0


def test_external_groups_are_sources_and_entities_are_gold(tmp_path: Path) -> None:
    first = make_doc("Ada", "Lovelace", "wrote", groups={"sc": [(0, 2, "PER")], "b": []})
    first.ents = [Span(first, 0, 2, label="PER")]
    second = make_doc("Nobody", groups={"sc": []})
    issues = Issues()
    path = save(tmp_path, first, second)
    data = spacy_format.read(path, ReadOptions(), issues).content
    assert isinstance(data, Dataset)
    assert data.sources == ("sc", "b")
    assert data.votes.tolist() == [[1, 0], [2, 0], [0, 0], [0, -1]]
    assert data.gold is not None
    assert data.gold.tolist() == [1, 2, 0, 0]
    assert data.unmarked == ("abstain", "abstain")
    assert data.text is not None
    assert data.text.sentences.to_list() == ["Ada Lovelace wrote ", "Nobody "]
    assert [str(issue) for issue in issues] == [
        f"{path}: document 1: gold (gold): entities are not set; treated as no entities"
    ]


def test_overlaps_scores_and_options_of_external_files(tmp_path: Path) -> None:
    doc = make_doc("a", "b", "c", groups={"sc": [(0, 1, "X"), (0, 3, "Y")], "t": []})
    doc.spans["sc"].attrs["scores"] = np.array([0.5, 0.6])
    path, issues = save(tmp_path, doc), Issues()
    data = spacy_format.read(path, ReadOptions(types=("Y", "X"), sources=("sc",)), issues).content
    assert isinstance(data, Dataset)
    assert data.votes[:, 0].tolist() == [1, 2, 2]
    assert data.gold is None
    assert sorted(issue.kind for issue in issues) == ["ignored", "overlap"]
    with pytest.raises(DataError, match=r"document 0: spans 0-1 X and 0-3 Y .*overlap"):
        spacy_format.read(path, ReadOptions(on_overlap="error"), Issues())
    with pytest.raises(DataError, match="document 0: no entity type 'Y'"):
        spacy_format.read(path, ReadOptions(types=("X",)), Issues())


def test_a_missing_group_is_o_if_unmarked_is_abstain(tmp_path: Path) -> None:
    path = save(tmp_path, make_doc("a", groups={"s": [(0, 1, "X")]}), make_doc("b"))
    default = spacy_format.read(path, ReadOptions(), Issues()).content
    unmarked_abstains = spacy_format.read(path, ReadOptions(unmarked="abstain"), Issues()).content
    assert isinstance(default, Dataset)
    assert isinstance(unmarked_abstains, Dataset)
    assert (default.votes[1, 0], unmarked_abstains.votes[1, 0]) == (-1, 0)


def test_content_that_spacy_cannot_store_is_an_error(tmp_path: Path, predictions: Predictions) -> None:
    with pytest.raises(FormatError, match="sentence 1: token 1 is empty, which spaCy cannot store"):
        cio.write(Dataset.from_spans(["A"], [["x"], ["y", ""]], {}), tmp_path / "d.spacy")
    with pytest.raises(FormatError, match="token 0 is not valid Unicode"):
        cio.write(Dataset.from_spans(["A"], [["\ud800"]], {}), tmp_path / "d.spacy")
    data = predictions.data.select_sources(["names"]).with_sources(
        ("convener",), predictions.data.votes[:, :1], ("abstain",)
    )
    with pytest.raises(FormatError, match="cannot store a source named 'convener'"):
        cio.write(replace(predictions, data=data), tmp_path / "d.spacy")
    assert returned(data, spacy_format.FORMAT, tmp_path / "d.spacy") == data  # allowed in a dataset


def edit_docs(path: Path, change: Callable[[Doc], object]) -> None:
    docs = list(DocBin().from_disk(path).get_docs(spacy.blank("en").vocab))
    for doc in docs:
        change(doc)
    DocBin(docs=docs, store_user_data=True).to_disk(path)


def set_user_data(key: str, value: object) -> Callable[[Doc], object]:
    return lambda doc: doc.user_data["convener"].update({key: value})


def set_attr(group: str, key: str, value: object) -> Callable[[Doc], object]:
    return lambda doc: doc.spans[group].attrs.update({key: value})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_user_data("metadata", "nope"),
         ": convener metadata: not valid JSON at character 0: Expecting value"),
        (set_user_data("token_offsets", (1, 2)), ": document 0: expected token_offsets for 5 tokens, got 1"),
        (set_user_data("doc_offset", "x"), None),
        (set_user_data("gaps", [9]), ": document 0: 'gaps' must be indices of the 5 tokens"),
        (set_user_data("tokens", ["x"]), ": document 0: 'tokens' must be a list of 5 strings"),
        (set_attr("convener", "scores", [1.0, 2.0]),
         ": document 0: expected 1 scores (convener), got 2"),
        (set_attr("convener", "scores", ["x"]), None),
        (set_attr("names", "votes", [1]), ": document 0: expected 5 votes (names)"),
        (set_attr("names", "votes", [1.5] * 5), ": document 0: expected 5 votes (names)"),
        (set_attr("names", "votes", [99999] * 5), None),
        (set_attr("names", "votes", [7] * 5), None),
        (lambda doc: doc.spans.pop("convener"),
         ": document 0: expected a span group 'convener', got none"),
    ],
)  # fmt: skip
def test_a_damaged_native_file_is_an_error(
    tmp_path: Path, predictions: Predictions, change: Callable[[Doc], object], message: str | None
) -> None:
    path = tmp_path / "d.spacy"
    cio.write(predictions, path)
    edit_docs(path, change)
    with pytest.raises(DataError) as caught:
        spacy_format.read(path, ReadOptions(), Issues())
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
    if message is not None:
        assert str(caught.value) == f"{path}{message}"


def test_missing_probabilities_are_an_error(tmp_path: Path, predictions: Predictions) -> None:
    path = tmp_path / "d.spacy"
    cio.write(replace(predictions, probabilities=np.full((6, 3), 1 / 3, np.float32)), path)
    edit_docs(path, lambda doc: doc.user_data["convener"].pop("probabilities"))
    with pytest.raises(DataError, match="expected probabilities for 6 tokens x 3 labels, got 0 values"):
        spacy_format.read(path, ReadOptions(), Issues())


def test_malformed_external_files_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"d.spacy: the file contains no documents"):
        spacy_format.read(save(tmp_path), ReadOptions(), Issues())
    with pytest.raises(DataError, match=r"d.spacy: the file names no entity types"):
        spacy_format.read(save(tmp_path, make_doc("a")), ReadOptions(), Issues())
    with pytest.raises(DataError, match=r"document 0: span 0-1 \(s\) has no label"):
        spacy_format.read(save(tmp_path, make_doc("a", groups={"s": [(0, 1, "")]})), ReadOptions(), Issues())


def test_junk_is_an_error(tmp_path: Path, predictions: Predictions) -> None:
    path = tmp_path / "d.spacy"
    cio.write(predictions, path)
    complete = path.read_bytes()
    inner = zlib.decompress(complete)
    for junk in (
        b"",
        b"junk",
        complete[:50],
        zlib.compress(b""),
        zlib.compress(b"\x80"),
        zlib.compress(b"\x90"),
        zlib.compress(inner[:-30]),
    ):
        path.write_bytes(junk)
        with pytest.raises(DataError, match=r"d.spacy: not a readable DocBin"):
            cio.read(path)
        assert gc.isenabled()


def test_corrupt_bytes_raise_only_data_errors(tmp_path: Path, predictions: Predictions) -> None:
    path = tmp_path / "d.spacy"
    cio.write(predictions, path)
    good, rng = zlib.decompress(path.read_bytes()), np.random.default_rng(1)
    for _ in range(150):
        raw = bytearray(good)
        for at in rng.integers(0, len(raw), 2):
            raw[at] = rng.integers(256)
        path.write_bytes(zlib.compress(bytes(raw)))
        try:
            spacy_format.read(path, ReadOptions(), Issues())
        except DataError as error:
            assert "\n" not in str(error)  # noqa: PT017

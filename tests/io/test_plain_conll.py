"""Plain CoNLL: token and tag, as spaCy, seqeval and conlleval read them."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from seqeval.metrics import f1_score

import convener as cv
from convener.data.ragged import StringArray, lengths_to_offsets
from convener.data.schemes import SCHEMES, Scheme
from convener.errors import FormatError
from tests.generators import Kind, predictions


def write(content: Any, path: Path, **options: Any) -> str:
    """Write a file, without the warning about text, and return it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cv.ConvenerWarning)
        cv.write(content, path, **options)
    return path.read_text(encoding="utf-8")


def make_data(*sentences: str, gold: list[list[tuple[int, int, str]]] | None = None) -> cv.Dataset:
    tokens = [sentence.split(" ") for sentence in sentences]
    return cv.Dataset.from_spans(["PER", "LOC"], tokens, {"names": [[] for _ in tokens]}, gold=gold)


@pytest.fixture
def labels() -> cv.Predictions:
    data = make_data("Ada Lovelace left London .", "# 7")
    found = np.array([1, 2, 0, 3, 0, 0, 0], np.int16)
    return cv.Predictions(data=data, labels=found, span_scores=np.array([0.5, 0.25], np.float32), model="m")


PLAIN = "Ada B-PER\nLovelace I-PER\nleft O\nLondon B-LOC\n. O\n\n# O\n7 O\n\n"


def test_predictions_are_two_columns(tmp_path: Path, labels: cv.Predictions) -> None:
    assert write(labels, tmp_path / "p.conll") == PLAIN
    assert write(labels, tmp_path / "p.tsv") == PLAIN.replace(" ", "\t")
    assert write(labels, tmp_path / "p.conll", metadata=False) == PLAIN
    assert write(labels, tmp_path / "s.conll", scheme="biluo").startswith("Ada B-PER\nLovelace L-PER\n")


def test_scores_stand_before_the_tag(tmp_path: Path, labels: cv.Predictions) -> None:
    lines = write(labels, tmp_path / "p.conll", scores=True).splitlines()
    assert lines[:4] == ["Ada 0.5 B-PER", "Lovelace 0.5 I-PER", "left - O", "London 0.25 B-LOC"]
    read = cv.read_predictions(tmp_path / "p.conll", types=("PER", "LOC"))
    assert read.labels.tolist() == labels.labels.tolist()


def test_metadata_keeps_votes_scores_and_model(tmp_path: Path, labels: cv.Predictions) -> None:
    assert write(labels, tmp_path / "p.conll", metadata=True).startswith("# convener = ")
    read = cv.read_predictions(tmp_path / "p.conll")
    assert (read.model, read.data.sources) == ("m", ("names",))
    assert read.span_scores is not None
    assert read.span_scores.tolist() == [0.5, 0.25]


def test_votes_are_complete_and_gold_alone_is_plain(tmp_path: Path) -> None:
    data = make_data("Ada left", gold=[[(0, 1, "PER")]])
    assert write(data, tmp_path / "d.conll").startswith("# convener = ")
    assert write(data.select_sources([]), tmp_path / "d.conll") == "Ada B-PER\nleft O\n\n"
    assert write(data, tmp_path / "d.conll", metadata=False) == "Ada B-PER\nleft O\n\n"
    with pytest.raises(FormatError, match=r"d\.conll: .* neither predictions nor gold; write votes with metadata=True"):
        cv.write(data.without_gold(), tmp_path / "d.conll", metadata=False)


def test_formats_without_a_plain_form_are_an_error(tmp_path: Path, labels: cv.Predictions) -> None:
    for name in ("l.jsonl", "l.parquet", "l.npz"):
        with pytest.raises(FormatError, match=r"is always written with metadata; the plain forms are CoNLL and CSV"):
            cv.write(labels, tmp_path / name, metadata=False)


@given(content=predictions(kind=Kind(spaces=False), scores=None))
@pytest.mark.parametrize("scheme", SCHEMES)
def test_plain_files_read_back_the_same_tags(
    tmp_path_factory: pytest.TempPathFactory, scheme: Scheme, content: cv.Predictions
) -> None:
    path = tmp_path_factory.mktemp("plain") / "p.conll"
    has_space = any(name.split() != [name] for name in content.data.tags.types)
    if not len(content.data.tokens) or (content.data.lengths == 0).any() or has_space:
        return
    try:
        write(content, path, scheme=scheme)
    except FormatError as error:
        assert scheme == "io" and "would merge two adjacent spans" in str(error)  # noqa: PT017, PT018
        return
    read = cv.read_predictions(path, types=content.data.tags.types)
    assert read.data.tokens == content.data.tokens
    assert read.data.offsets.tolist() == content.data.offsets.tolist()
    assert read.tags() == content.tags()


@pytest.mark.parametrize("token", ["a\u00a0b", "a b", "a\tb", "\u2003", "", "-DOCSTART-", "\ufeffx"])
def test_tokens_that_would_not_be_read_back_are_errors(tmp_path: Path, token: str) -> None:
    data = cv.Dataset.from_spans(["PER"], [[token, "left"]], {}, gold=[[]])
    with pytest.raises(FormatError, match=r"p\.conll: sentence 0: token 0"):
        cv.write(data, tmp_path / "p.conll")
    if token != "\ufeffx":
        assert len(write(data, tmp_path / "p.conll", allow_lossy=True).splitlines()[0].split()) == 2


def test_types_with_a_space_are_errors(tmp_path: Path) -> None:
    data = cv.Dataset.from_spans(["job title"], [["Judge"]], {}, gold=[[(0, 1, "job title")]])
    with pytest.raises(FormatError, match="entity type: 'job title' is not one column"):
        cv.write(data, tmp_path / "p.conll")
    assert write(data, tmp_path / "p.conll", allow_lossy=True) == "Judge B-job_title\n\n"
    assert write(data, tmp_path / "p.tsv") == "Judge\tB-job title\n\n"


def test_sentences_without_tokens_are_an_error(tmp_path: Path) -> None:
    data = cv.Dataset.from_spans(["PER"], [["Ada"], []], {}, gold=[[], []])
    with pytest.raises(FormatError, match="cannot store sentences without tokens"):
        cv.write(data, tmp_path / "p.conll")
    assert write(data, tmp_path / "p.conll", allow_lossy=True) == "Ada O\n\n"


def test_seqeval_takes_the_file_and_gives_our_score(tmp_path: Path) -> None:
    data = cv.demo.load_corpus().test
    predicted = cv.get_model("majority-vote")().fit(data).predict(data)
    write(predicted, tmp_path / "p.conll")
    write(data, tmp_path / "g.conll", metadata=False)

    def last_column(path: Path) -> list[list[str]]:
        blocks = path.read_text(encoding="utf-8").strip().split("\n\n")
        return [[line.split(" ")[-1] for line in block.splitlines()] for block in blocks]

    expected = f1_score(last_column(tmp_path / "g.conll"), last_column(tmp_path / "p.conll"))
    assert cv.evaluate(predicted, data).f1 == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize("scores", [False, True])
def test_spacy_convert_reads_the_file(tmp_path: Path, labels: cv.Predictions, scores: bool) -> None:
    import spacy
    from spacy.tokens import DocBin

    write(labels, tmp_path / "p.conll", scores=scores)
    command = [sys.executable, "-m", "spacy", "convert", "p.conll", ".", "--converter", "ner", "-n", "1"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    docs = list(DocBin().from_disk(tmp_path / "p.spacy").get_docs(spacy.blank("en").vocab))
    assert [[token.text for token in doc] for doc in docs] == [sentence.tokens for sentence in labels.data]
    assert [[(span.text, span.label_) for span in doc.ents] for doc in docs] == [
        [("Ada Lovelace", "PER"), ("London", "LOC")],
        [],
    ]


def test_zero_width_spaces_stay_in_their_token(tmp_path: Path) -> None:
    words = StringArray.from_list(["a\u200bb", "\u200b"])
    data = cv.Dataset.from_spans(["PER"], [["x", "y"]], {}, gold=[[]])
    data = cv.Dataset(
        tags=data.tags, tokens=words, offsets=lengths_to_offsets([2]), sources=(), votes=data.votes, unmarked=(),
        gold=data.gold,
    )  # fmt: skip
    write(data, tmp_path / "p.conll")
    assert cv.read(tmp_path / "p.conll", types=("PER",)).tokens == words

"""Sentences as values, compared with loops over the packed arrays."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from convener.data import sentences
from convener.data.dataset import Dataset
from convener.data.predictions import Predictions
from convener.data.sentences import AnnotatedSentence, TextSpan, TokenizedText
from convener.data.tags import ABSTAIN
from tests.generators import datasets, predictions


def spans_by_loop(data: Dataset, sentence: int, labels: list[int]) -> list[tuple[int, int, str]]:
    """Spans of the labels of a sentence; an I- that continues no span starts one."""
    found: list[tuple[int, int, str]] = []
    for token, label in enumerate(labels):
        if label <= 0:
            continue
        kind = data.tags.types[(label - 1) // 2]
        continues = label % 2 == 0 and token and labels[token - 1] in (label - 1, label)
        if continues:
            found[-1] = (found[-1][0], token + 1, kind)
        else:
            found.append((token, token + 1, kind))
    return found


def positions(spans: tuple[TextSpan, ...] | None) -> list[tuple[int, int, str]]:
    assert spans is not None
    return [(span.start, span.end, span.label) for span in spans]


@given(datasets())
def test_a_sentence_of_a_dataset_has_gold_and_votes_of_each_source(data: Dataset) -> None:
    for number, sentence in enumerate(data):
        here = slice(int(data.offsets[number]), int(data.offsets[number + 1]))
        assert list(sentence.tokens) == data.tokens[here].to_list()
        assert sentence.doc_id == (None if data.doc_ids is None else data.doc_ids[number])
        assert (sentence.gold is None) == (data.gold is None)
        if data.gold is not None:
            assert positions(sentence.gold) == spans_by_loop(data, number, data.gold[here].tolist())
        assert tuple(sentence.votes) == data.sources
        for column, name in enumerate(data.sources):
            votes = data.votes[here, column].tolist()
            if votes and set(votes) == {ABSTAIN}:
                assert sentence.votes[name] is None
            else:
                assert positions(sentence.votes[name]) == spans_by_loop(data, number, votes)


def check_text(data: Dataset, number: int, sentence: TokenizedText, spans: tuple[TextSpan, ...]) -> None:
    """Characters of a span select its text, which is that of its tokens."""
    known = data.text is not None
    assert sentence.text == (data.text.sentences[number] if data.text is not None else " ".join(sentence.tokens))
    for span in spans:
        assert span.text == sentence.text[span.start_char : span.end_char]
        assert known or span.text == " ".join(sentence.tokens[span.start : span.end])
        assert span.start_char == sentence.token_offsets[span.start][0]
        assert span.end_char == sentence.token_offsets[span.end - 1][1]


@given(predictions())
def test_characters_of_spans_select_their_text(labels: Predictions) -> None:
    for number, sentence in enumerate(labels):
        check_text(labels.data, number, sentence, sentence.spans)
    for number, annotated in enumerate(labels.data):
        for spans in annotated.votes.values():
            check_text(labels.data, number, annotated, spans or ())


def test_blocks_do_not_matter(monkeypatch) -> None:
    tokens = [["Ada"] * (number % 4) for number in range(50)]
    votes = {"s": [[(0, 1, "PER")] if words else None for words in tokens], "t": [[]] * 50}
    data = Dataset.from_spans(["PER"], tokens, votes, gold=[[]] * 50)
    labels = Predictions(data=data, labels=np.maximum(data.votes[:, 0], 0), probabilities=None)
    expected = list(data), list(labels)
    monkeypatch.setattr(sentences, "BLOCK_SENTENCES", 7)
    assert (list(data), list(labels)) == expected
    assert [data[number] for number in range(50)] == expected[0]


def test_a_span_with_known_text_keeps_its_spacing() -> None:
    text = TokenizedText(tokens=("New", "York"), text="in New\n York.", token_offsets=((3, 6), (8, 12)))
    assert text.span(0, 2, "LOC") == TextSpan("New\n York", "LOC", 0, 2, 3, 12)
    annotated = AnnotatedSentence(**vars(text), gold=(text.span(0, 2, "LOC"),))
    assert annotated.votes == {}

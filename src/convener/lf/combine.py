"""Labeling functions made of labeling functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from convener.errors import ConfigError, check_known
from convener.lf.function import ABSTAIN, LabelingFunction, RawOutput, Span
from convener.lf.view import Doc

SpansOrNone = list[Span] | None
"""The spans that a function finds in one text; None where it abstains."""


def union(*functions: LabelingFunction, name: str, **settings: Any) -> LabelingFunction:
    """What any of the functions finds; it abstains where all do.

    >>> from convener.lf import gazetteer
    >>> cities, rivers = gazetteer(["Oslo"], "LOC"), gazetteer(["Thames"], "LOC")
    >>> union(cities, rivers, name="places")("Oslo or the Thames")
    [(0, 1, 'LOC'), (3, 4, 'LOC')]
    """

    def join(*results: SpansOrNone) -> RawOutput:
        if all(spans is None for spans in results):
            return ABSTAIN
        return [span for answer in results for span in answer or ()]

    return combine(functions, join, name=name, **settings)


def intersection(*functions: LabelingFunction, name: str, **settings: Any) -> LabelingFunction:
    r"""What all of the functions find, word for word; it abstains where one does.

    >>> from convener.lf import gazetteer, pattern
    >>> known, capital = gazetteer(["may", "May"], "PER"), pattern(r"\p{Lu}\w+", "PER")
    >>> intersection(known, capital, name="may")("May may")
    [(0, 1, 'PER')]
    """

    def join(first: SpansOrNone, *others: SpansOrNone) -> RawOutput:
        if first is None:
            return ABSTAIN
        for spans in others:
            if spans is None:
                return ABSTAIN
            first = [span for span in first if span in spans]
        return first

    return combine(functions, join, name=name, **settings)


def difference(
    function: LabelingFunction, *others: LabelingFunction, name: str | None = None, **settings: Any
) -> LabelingFunction:
    """What the first function finds where none of the others finds anything.

    >>> from convener.lf import gazetteer, pattern
    >>> cities, verbs = gazetteer(["Reading"], "LOC"), pattern(r"Reading is", "VERB")
    >>> difference(cities, verbs)("Reading is near Reading")
    [(3, 4, 'LOC')]
    """

    def join(first: SpansOrNone, *results: SpansOrNone) -> RawOutput:
        excluded = [span for spans in results for span in spans or ()]
        return _filter_spans(
            first,
            lambda span: not any(span[0] < end and start < span[1] for start, end, _ in excluded),
        )

    defaults = {"labels": function.labels, "prior_precision": function.prior_precision}
    name = name or function.name
    return combine((function, *others), join, name=name, **(defaults | settings))


def keep_labels(function: LabelingFunction, *labels: str, name: str | None = None, **settings: Any) -> LabelingFunction:
    """Only those spans of a function that have one of these labels.

    >>> from convener.lf import gazetteer
    >>> names = gazetteer({"LOC": ["Oslo"], "PER": ["Ada"]})
    >>> keep_labels(names, "PER")("Ada in Oslo")
    [(0, 1, 'PER')]
    """
    check_known(f"label of {function.name}", labels, function.labels)
    dropped = {label: None for label in function.labels if label not in labels}
    return map_labels(function, dropped, name=name, **settings)


def map_labels(
    function: LabelingFunction,
    labels: Mapping[str, str | None],
    *,
    name: str | None = None,
    **settings: Any,
) -> LabelingFunction:
    """The same spans with other labels; None leaves the spans of a label out.

    >>> from convener.lf import gazetteer
    >>> map_labels(gazetteer(["Oslo"], "GPE"), {"GPE": "LOC"})("Oslo")
    [(0, 1, 'LOC')]
    """
    check_known(f"label of {function.name}", labels, function.labels)
    mapping = {label: labels.get(label, label) for label in function.labels}

    def join(spans: SpansOrNone) -> RawOutput:
        if spans is None:
            return ABSTAIN
        return [(start, end, target) for start, end, label in spans if (target := mapping[label]) is not None]

    output_labels = tuple(dict.fromkeys(label for label in mapping.values() if label is not None))
    return combine((function,), join, name=name or function.name, labels=output_labels, **settings)


def only_if(
    function: LabelingFunction,
    condition: Callable[[Doc], bool],
    *,
    name: str | None = None,
    **settings: Any,
) -> LabelingFunction:
    """The function where a condition holds for the text; elsewhere it abstains, and is not asked.

    >>> from convener.lf import gazetteer
    >>> sport = only_if(gazetteer(["Lincoln"], "ORG"), lambda view: "match" in view)
    >>> sport("Lincoln won the match"), sport("Lincoln spoke")
    ([(0, 1, 'ORG')], None)
    """

    def find_batch(docs: Sequence[Doc]) -> list[RawOutput]:
        selected = [number for number, doc in enumerate(docs) if condition(doc)]
        results = label_docs(function, [docs[number] for number in selected])
        outputs: list[RawOutput] = [ABSTAIN] * len(docs)
        for number, spans in zip(selected, results, strict=True):
            outputs[number] = _filter_spans(spans)
        return outputs

    return LabelingFunction(
        name=name or function.name, batch_func=find_batch, **inherit_settings((function,), settings)
    )


def combine(
    functions: Sequence[LabelingFunction],
    join: Callable[..., RawOutput],
    *,
    name: str,
    **settings: Any,
) -> LabelingFunction:
    """A function that asks others about each text and joins their answers.

    It sees documents if one of them does; those that see sentences are shown the document's.
    """
    if not functions:
        raise ConfigError(f"{name}: give at least one labeling function")

    def find_batch(docs: Sequence[Doc]) -> list[RawOutput]:
        return list(map(join, *(label_docs(function, docs) for function in functions)))

    return LabelingFunction(name=name, batch_func=find_batch, **inherit_settings(functions, settings))


def label_docs(function: LabelingFunction, docs: Sequence[Doc]) -> list[SpansOrNone]:
    """What a function says of each text; one that sees sentences is shown those of a document."""
    if function.scope == "document" or all(len(doc.sentences) < 2 for doc in docs):
        return function.label_batch(docs)
    sentence_docs = [view.sentence_docs() for view in docs]
    results = iter(
        function.label_batch([sentence_doc for doc_sentences in sentence_docs for sentence_doc in doc_sentences])
    )
    return [_merge_sentences(view, some, results) for view, some in zip(docs, sentence_docs, strict=True)]


def _merge_sentences(doc: Doc, sentence_docs: list[Doc], results: Any) -> SpansOrNone:
    """One answer from those about the sentences of a document."""
    merged: list[Span] = []
    abstains = True
    for sentence_doc, (first, _) in zip(sentence_docs, doc.sentences, strict=True):
        spans = next(results)
        if sentence_doc is not doc:
            doc.issues += sentence_doc.issues
        abstains &= spans is None
        merged += [(first + start, first + end, label) for start, end, label in spans or ()]
    return None if abstains else merged


def _filter_spans(spans: SpansOrNone, keep: Callable[[Span], bool] = lambda _: True) -> RawOutput:
    return ABSTAIN if spans is None else [span for span in spans if keep(span)]


def inherit_settings(functions: Sequence[LabelingFunction], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a combination, and what it takes from its parts where it is not set."""
    any_document_scope = any(function.scope == "document" for function in functions)
    labels = tuple(dict.fromkeys(label for item in functions for label in item.labels))
    used_labels = settings.get("labels", labels)
    coarse = {name: spec for item in functions for name, spec in item.coarse.items()}
    defaults = {
        "labels": labels,
        "coarse": {name: meant for name, meant in coarse.items() if name in used_labels},
        "scope": "document" if any_document_scope else "sentence",
        "on_silence": functions[0].on_silence,
        "in_main_process": any(function.in_main_process for function in functions),
        # Of several, nobody knows: their errors may add up, or not.
        "prior_precision": functions[0].prior_precision if len(functions) == 1 else None,
    }
    return {**defaults, **settings}

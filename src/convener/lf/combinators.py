"""Combinators: labeling functions made from other labeling functions.

`union`, `intersection`, `difference`, `keep_labels`, `map_labels` and `only_if` combine or filter
spans; `propagate` and `document_majority` use the whole document. `linking_function` and
`as_linking` make linking functions, which mark adjacent tokens that belong to the same entity. The
model `linked-hmm` reads sources whose name starts with `link-` this way: inside a span each token
is linked to the previous one, and the label of the span is ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Unpack

from convener.data.tags import ABSTAIN
from convener.errors import ConfigError, check_known
from convener.lf.doc import Doc
from convener.lf.function import LabelingFunction, LFSettings, RawOutput
from convener.lf.validation import Span

SpansOrNone = list[Span] | None
"""The spans that a function finds in one text; None if it abstains."""
PhraseLabels = dict[tuple[str, ...], str]
"""The label of each phrase of a document, by its tokens."""
LINK_PREFIX = "link-"
"""Name prefix of linking functions; the model `linked-hmm` recognizes them by it."""


def union(*functions: LabelingFunction, name: str, **settings: Unpack[LFSettings]) -> LabelingFunction:
    """Return the spans of any of the functions; abstains if all abstain.

    >>> from convener.lf import gazetteer
    >>> cities, rivers = gazetteer(["Oslo"], "LOC"), gazetteer(["Thames"], "LOC")
    >>> union(cities, rivers, name="places")("Oslo or the Thames")
    [Oslo](LOC) or the [Thames](LOC)
    """

    def join(*results: SpansOrNone) -> RawOutput:
        if all(spans is None for spans in results):
            return ABSTAIN
        return [span for spans in results for span in spans or ()]

    return combine(functions, join, name=name, **settings)


def intersection(*functions: LabelingFunction, name: str, **settings: Unpack[LFSettings]) -> LabelingFunction:
    r"""Return the spans that all functions find, with equal bounds and label; abstains if any abstains.

    >>> from convener.lf import gazetteer, pattern
    >>> known, capital = gazetteer(["may", "May"], "PER"), pattern(r"\p{Lu}\w+", "PER")
    >>> intersection(known, capital, name="may")("May may")
    [May](PER) may
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
    function: LabelingFunction, *others: LabelingFunction, name: str | None = None, **settings: Unpack[LFSettings]
) -> LabelingFunction:
    """Return the spans of the first function that overlap no span of the others.

    >>> from convener.lf import gazetteer, pattern
    >>> cities, verbs = gazetteer(["Reading"], "LOC"), pattern(r"Reading is", "VERB")
    >>> difference(cities, verbs)("Reading is near Reading")
    Reading is near [Reading](LOC)
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


def keep_labels(
    function: LabelingFunction, *labels: str, name: str | None = None, **settings: Unpack[LFSettings]
) -> LabelingFunction:
    """Return the spans of a function that have one of the given labels.

    >>> from convener.lf import gazetteer
    >>> names = gazetteer({"LOC": ["Oslo"], "PER": ["Ada"]})
    >>> keep_labels(names, "PER")("Ada in Oslo")
    [Ada](PER) in Oslo
    """
    check_known(f"label of {function.name}", labels, function.labels)
    dropped = {label: None for label in function.labels if label not in labels}
    return map_labels(function, dropped, name=name, **settings)


def map_labels(
    function: LabelingFunction,
    labels: Mapping[str, str | None],
    *,
    name: str | None = None,
    **settings: Unpack[LFSettings],
) -> LabelingFunction:
    """Return the spans of a function with labels replaced; None drops the spans of a label.

    >>> from convener.lf import gazetteer
    >>> map_labels(gazetteer(["Oslo"], "GPE"), {"GPE": "LOC"})("Oslo")
    [Oslo](LOC)
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
    **settings: Unpack[LFSettings],
) -> LabelingFunction:
    """Run a function only on texts that meet a condition; elsewhere abstain without calling it.

    >>> from convener.lf import gazetteer
    >>> sport = only_if(gazetteer(["Lincoln"], "ORG"), lambda doc: "match" in doc)
    >>> sport("Lincoln won the match"), sport("Lincoln spoke")
    ([Lincoln](ORG) won the match, None)
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


def propagate(
    function: LabelingFunction, *, name: str | None = None, **settings: Unpack[LFSettings]
) -> LabelingFunction:
    r"""Mark every occurrence in a document of the phrases that a function finds in it, longest first.

    A phrase found with several labels gets its most frequent label.

    >>> from convener.lf import pattern
    >>> titled = pattern(r"Dr (\w+)", "PER", group=1)
    >>> document = Doc(["Dr", "Ray", "came", "Ray", "left"], sentences=[(0, 3), (3, 5)])
    >>> propagate(titled)(document)
    [(1, 2, 'PER'), (3, 4, 'PER')]
    """

    def find_occurrences(doc: Doc, spans: list[Span]) -> list[Span]:
        labels = _majority_labels(doc, spans)
        return [
            (first + start, first + end, label)
            for first, last in doc.sentences
            for start, end, label in _find_occurrences(doc[first:last], labels)
        ]

    return _document_function(function, find_occurrences, name or f"{function.name} everywhere", **settings)


def document_majority(
    function: LabelingFunction, *, name: str | None = None, **settings: Unpack[LFSettings]
) -> LabelingFunction:
    """Return the spans of a function, each with the most frequent label of its phrase in the document.

    Ties go to the label that occurs first.
    """

    def relabel(doc: Doc, spans: list[Span]) -> list[Span]:
        labels = _majority_labels(doc, spans)
        return [(start, end, labels[tuple(doc.tokens[start:end])]) for start, end, _ in spans]

    return _document_function(function, relabel, name or f"{function.name} by majority", **settings)


def linking_function(
    label: str, *, name: str | None = None, **settings: Unpack[LFSettings]
) -> Callable[[Callable[[Doc], Iterable[int]]], LabelingFunction]:
    """Decorator that turns a function into a linking function.

    The function takes a `Doc` and returns the indices of the tokens linked to their previous token.
    The label must be an entity type of the data; the model ignores it. Settings are the fields of
    `LabelingFunction`.

    >>> @linking_function("PER")
    ... def capitals(words):
    ...     pairs = enumerate(zip(words, words[1:]), start=1)
    ...     return [i for i, (previous, word) in pairs if previous.istitle() and word.istitle()]
    >>> capitals.name, capitals("So Ada Augusta Lovelace wrote")
    ('link-capitals', [So Ada Augusta Lovelace](PER) wrote)
    """

    def decorator(find_links: Callable[[Doc], Iterable[int]]) -> LabelingFunction:
        def find(doc: Doc) -> Iterator[Span]:
            return ((start, end, label) for start, end in _linked_spans(find_links(doc)))

        lf_name = str(name or getattr(find_links, "__name__", ""))
        return LabelingFunction(name=_add_prefix(lf_name), labels=(label,), func=find, **settings)

    return decorator


def as_linking(
    function: LabelingFunction, *, name: str | None = None, **settings: Unpack[LFSettings]
) -> LabelingFunction:
    """Turn a labeling function into a linking function that links the tokens of each span.

    >>> from convener.lf import gazetteer
    >>> as_linking(gazetteer(["New York", "Oslo"], "LOC", name="cities"))("Oslo or New York")
    Oslo or [New York](LOC)
    """

    def join(spans: SpansOrNone) -> RawOutput:
        if spans is None:
            return ABSTAIN
        return [(start, end, label) for start, end, label in spans if end - start > 1]

    return combine((function,), join, name=_add_prefix(name or function.name), **settings)


def combine(
    functions: Sequence[LabelingFunction],
    join: Callable[..., RawOutput],
    *,
    name: str,
    **settings: Any,
) -> LabelingFunction:
    """Return a labeling function that calls others on each text and joins their spans.

    Its scope is the document if one of them has that scope; functions of sentence scope are then
    called on each sentence of the document.
    """
    if not functions:
        raise ConfigError(f"{name}: expected at least one labeling function, got none")

    def find_batch(docs: Sequence[Doc]) -> list[RawOutput]:
        return list(map(join, *(label_docs(function, docs) for function in functions)))

    return LabelingFunction(name=name, batch_func=find_batch, **inherit_settings(functions, settings))


def label_docs(function: LabelingFunction, docs: Sequence[Doc]) -> list[SpansOrNone]:
    """Return the spans of each document; a function of sentence scope is called on each sentence."""
    if function.scope == "document" or all(len(doc.sentences) < 2 for doc in docs):
        return function.label_batch(docs)
    sentence_docs = [doc.sentence_docs() for doc in docs]
    results = iter(function.label_batch([sentence for sentences in sentence_docs for sentence in sentences]))
    return [_merge_sentences(doc, sentences, results) for doc, sentences in zip(docs, sentence_docs, strict=True)]


def _merge_sentences(doc: Doc, sentence_docs: list[Doc], results: Iterator[SpansOrNone]) -> SpansOrNone:
    """Merge the spans of the sentences of a document; None if the function abstains on all of them."""
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
    """Return the settings of a combination; those not set are inherited from the functions."""
    any_document_scope = any(function.scope == "document" for function in functions)
    labels = tuple(dict.fromkeys(label for item in functions for label in item.labels))
    used_labels = settings.get("labels", labels)
    coarse = {name: spec for item in functions for name, spec in item.coarse.items()}
    defaults = {
        "labels": labels,
        "coarse": {name: spec for name, spec in coarse.items() if name in used_labels},
        "scope": "document" if any_document_scope else "sentence",
        "unmarked": functions[0].unmarked,
        "in_main_process": any(function.in_main_process for function in functions),
        # The precision of a combination of several functions is unknown.
        "prior_precision": functions[0].prior_precision if len(functions) == 1 else None,
    }
    return {**defaults, **settings}


def _document_function(
    function: LabelingFunction,
    transform: Callable[[Doc, list[Span]], list[Span]],
    name: str,
    **settings: Unpack[LFSettings],
) -> LabelingFunction:
    """Return a labeling function of document scope that transforms the spans of another."""

    def find_batch(docs: Sequence[Doc]) -> Iterator[RawOutput]:
        results: list[SpansOrNone] = label_docs(function, docs)
        for doc, spans in zip(docs, results, strict=True):
            yield ABSTAIN if spans is None else transform(doc, spans)

    settings.setdefault("scope", "document")
    return LabelingFunction(name=name, batch_func=find_batch, **inherit_settings((function,), settings))


def _majority_labels(doc: Doc, spans: list[Span]) -> PhraseLabels:
    counts: dict[tuple[str, ...], Counter[str]] = {}
    for start, end, label in spans:
        counts.setdefault(tuple(doc.tokens[start:end]), Counter())[label] += 1
    return {phrase: votes.most_common(1)[0][0] for phrase, votes in counts.items()}


def _find_occurrences(tokens: list[str], labels: PhraseLabels) -> list[Span]:
    """Return the occurrences of the phrases; of overlapping ones the longest, then the first."""
    spans: list[Span] = []
    free = [True] * len(tokens)
    for size in sorted({len(phrase) for phrase in labels}, reverse=True):
        for start in range(len(tokens) - size + 1):
            label = labels.get(tuple(tokens[start : start + size]))
            if label is not None and all(free[start : start + size]):
                free[start : start + size] = [False] * size
                spans.append((start, start + size, label))
    return spans


def _add_prefix(name: str) -> str:
    return name if name.startswith(LINK_PREFIX) else LINK_PREFIX + name


def _linked_spans(linked: Iterable[int]) -> list[tuple[int, int]]:
    """Return the maximal ranges of linked tokens, given the tokens linked to their previous token.

    >>> _linked_spans([1, 2, 5])
    [(0, 3), (4, 6)]
    """
    spans: list[tuple[int, int]] = []
    for token in sorted(set(linked)):
        if spans and spans[-1][1] == token:
            spans[-1] = spans[-1][0], token + 1
        else:
            spans.append((token - 1, token + 1))
    return spans

"""Labeling functions made of labeling functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from convener.errors import ConfigError, check_known
from convener.lf.function import ABSTAIN, Found, LabelingFunction, Span
from convener.lf.view import View

Answer = list[Span] | None
"""The spans that a function finds in one text; None where it abstains."""


def union(*functions: LabelingFunction, name: str, **settings: Any) -> LabelingFunction:
    """What any of the functions finds; it abstains where all do.

    >>> from convener.lf import gazetteer
    >>> cities, rivers = gazetteer(["Oslo"], "LOC"), gazetteer(["Thames"], "LOC")
    >>> union(cities, rivers, name="places")("Oslo or the Thames")
    [(0, 1, 'LOC'), (3, 4, 'LOC')]
    """

    def join(*answers: Answer) -> Found:
        if all(answer is None for answer in answers):
            return ABSTAIN
        return [span for answer in answers for span in answer or ()]

    return combined(functions, join, name=name, **settings)


def intersection(*functions: LabelingFunction, name: str, **settings: Any) -> LabelingFunction:
    r"""What all of the functions find, word for word; it abstains where one does.

    >>> from convener.lf import gazetteer, pattern
    >>> known, capital = gazetteer(["may", "May"], "PER"), pattern(r"\p{Lu}\w+", "PER")
    >>> intersection(known, capital, name="may")("May may")
    [(0, 1, 'PER')]
    """

    def join(first: Answer, *others: Answer) -> Found:
        if first is None:
            return ABSTAIN
        for answer in others:
            if answer is None:
                return ABSTAIN
            first = [span for span in first if span in answer]
        return first

    return combined(functions, join, name=name, **settings)


def minus(
    function: LabelingFunction, *others: LabelingFunction, name: str | None = None, **settings: Any
) -> LabelingFunction:
    """What the first function finds where none of the others finds anything.

    >>> from convener.lf import gazetteer, pattern
    >>> cities, verbs = gazetteer(["Reading"], "LOC"), pattern(r"Reading is", "VERB")
    >>> minus(cities, verbs)("Reading is near Reading")
    [(3, 4, 'LOC')]
    """

    def join(first: Answer, *answers: Answer) -> Found:
        taken = [span for answer in answers for span in answer or ()]
        return _passed_on(
            first,
            lambda span: not any(span[0] < end and start < span[1] for start, end, _ in taken),
        )

    taken = {"labels": function.labels, "precision": function.precision}
    name = name or function.name
    return combined((function, *others), join, name=name, **(taken | settings))


def restrict(
    function: LabelingFunction, *labels: str, name: str | None = None, **settings: Any
) -> LabelingFunction:
    """Only those spans of a function that have one of these labels.

    >>> from convener.lf import gazetteer
    >>> names = gazetteer({"LOC": ["Oslo"], "PER": ["Ada"]})
    >>> restrict(names, "PER")("Ada in Oslo")
    [(0, 1, 'PER')]
    """
    check_known(f"label of {function.name}", labels, function.labels)
    dropped = {label: None for label in function.labels if label not in labels}
    return rename(function, dropped, name=name, **settings)


def rename(
    function: LabelingFunction,
    labels: Mapping[str, str | None],
    *,
    name: str | None = None,
    **settings: Any,
) -> LabelingFunction:
    """The same spans with other labels; None leaves the spans of a label out.

    >>> from convener.lf import gazetteer
    >>> rename(gazetteer(["Oslo"], "GPE"), {"GPE": "LOC"})("Oslo")
    [(0, 1, 'LOC')]
    """
    check_known(f"label of {function.name}", labels, function.labels)
    new = {label: labels.get(label, label) for label in function.labels}

    def join(answer: Answer) -> Found:
        if answer is None:
            return ABSTAIN
        return [(start, end, to) for start, end, label in answer if (to := new[label]) is not None]

    given = tuple(dict.fromkeys(label for label in new.values() if label is not None))
    return combined((function,), join, name=name or function.name, labels=given, **settings)


def only_if(
    function: LabelingFunction,
    condition: Callable[[View], bool],
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

    def find_all(views: Sequence[View]) -> list[Found]:
        chosen = [number for number, view in enumerate(views) if condition(view)]
        answers = answers_of(function, [views[number] for number in chosen])
        found: list[Found] = [ABSTAIN] * len(views)
        for number, answer in zip(chosen, answers, strict=True):
            found[number] = _passed_on(answer)
        return found

    return LabelingFunction(
        name=name or function.name, find_all=find_all, **inherited((function,), settings)
    )


def combined(
    functions: Sequence[LabelingFunction],
    join: Callable[..., Found],
    *,
    name: str,
    **settings: Any,
) -> LabelingFunction:
    """A function that asks others about each text and joins their answers.

    It sees documents if one of them does; those that see sentences are shown the document's.
    """
    if not functions:
        raise ConfigError(f"{name}: give at least one labeling function")

    def find_all(views: Sequence[View]) -> list[Found]:
        return list(map(join, *(answers_of(function, views) for function in functions)))

    return LabelingFunction(name=name, find_all=find_all, **inherited(functions, settings))


def answers_of(function: LabelingFunction, views: Sequence[View]) -> list[Answer]:
    """What a function says of each text; one that sees sentences is shown those of a document."""
    if function.scope == "document" or all(len(view.sentences) < 2 for view in views):
        return function.answers(views)
    parts = [view.parts() for view in views]
    said = iter(function.answers([part for some in parts for part in some]))
    return [_joined(view, some, said) for view, some in zip(views, parts, strict=True)]


def _joined(view: View, parts: list[View], said: Any) -> Answer:
    """One answer from those about the sentences of a document."""
    found: list[Span] = []
    abstains = True
    for part, (first, _) in zip(parts, view.sentences, strict=True):
        answer = next(said)
        if part is not view:
            view.notes += part.notes
        abstains &= answer is None
        found += [(first + start, first + end, label) for start, end, label in answer or ()]
    return None if abstains else found


def _passed_on(answer: Answer, keep: Callable[[Span], bool] = lambda _: True) -> Found:
    return ABSTAIN if answer is None else [span for span in answer if keep(span)]


def inherited(functions: Sequence[LabelingFunction], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a combination, and what it takes from its parts where it is not set."""
    documents = any(function.scope == "document" for function in functions)
    labels = tuple(dict.fromkeys(label for item in functions for label in item.labels))
    given = settings.get("labels", labels)
    coarse = {name: meant for item in functions for name, meant in item.coarse.items()}
    taken = {
        "labels": labels,
        "coarse": {name: meant for name, meant in coarse.items() if name in given},
        "scope": "document" if documents else "sentence",
        "on_silence": functions[0].on_silence,
        "alone": any(function.alone for function in functions),
        # Of several, nobody knows: their errors may add up, or not.
        "precision": functions[0].precision if len(functions) == 1 else None,
    }
    return {**taken, **settings}

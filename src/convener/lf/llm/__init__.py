"""A language model as a source: any endpoint that speaks OpenAI's protocol.

`prompt` writes the request, `endpoint` sends it, `answers` keeps what came, `reading` finds the
quotes in it and `quotes` their places in the text; `counts` tells what happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from convener import caching
from convener.caching import digest_of
from convener.errors import ConfigError, DataError, unknown_name
from convener.io.messages import shown
from convener.lf.function import ABSTAIN, Found, LabelingFunction
from convener.lf.llm.answers import Answer, Answers
from convener.lf.llm.counts import Counts
from convener.lf.llm.endpoint import Endpoint, Line, Reply
from convener.lf.llm.prompt import Prompt
from convener.lf.llm.quotes import Quote, Words, align
from convener.lf.llm.reading import read_answer
from convener.lf.version import Unversioned
from convener.lf.view import View
from convener.lf.work import ERROR
from convener.settings import from_mapping

__all__ = ["Counts", "Endpoint", "LanguageModel", "Prompt", "llm"]

MALFORMED, REFUSED = "malformed", "refused"
"""Kinds of notes, beside errors."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LanguageModel(LabelingFunction):
    """A labeling function that counts what it asks."""

    asker: Asker

    @property
    def counts(self) -> Counts:
        """What happened so far: requests, tokens, quotes that were refused, texts that failed."""
        return self.asker.counts


def llm(
    model: str,
    types: Mapping[str, str] | Sequence[str],
    *,
    name: str = "llm",
    cache: bool | str | Path = True,
    **settings: Any,
) -> LanguageModel:
    """A source that asks a language model for entities, as quotes that are found in the text.

    model: its name at the endpoint. types: the entity types, with a description each or by name
    only. cache: keep answers on disk, in a folder of one's own if it is named; a text is then
    asked for once. Settings are those of `Prompt` (what is asked), `Endpoint` (where, and how
    patiently) and `LabelingFunction`.

    A text without a usable answer abstains. `counts` tells how many did and why, how many quotes
    were not in the text, and what was paid.

    >>> people = llm("some-model", {"PER": "names of people"}, base_url="http://127.0.0.1:9/v1")
    >>> people.counts.requests
    0
    """
    sorted_out = _sorted_out({"model": model, "types": types, **settings})
    prompt = Prompt(**sorted_out[Prompt])
    endpoint = from_mapping(Endpoint, sorted_out[Endpoint], what="setting")
    folder = caching.chosen(cache)
    asker = Asker(prompt, Line(endpoint), None if folder is None else Answers(folder))
    rest = {"alone": True, **sorted_out[LabelingFunction]}
    return LanguageModel(
        name=name, labels=prompt.labels, find_all=asker.find_all, asker=asker, **rest
    )


def _sorted_out(settings: Mapping[str, Any]) -> dict[type, dict[str, Any]]:
    """Settings by the class they belong to."""
    owners = {
        field.name: kind
        for kind in (LabelingFunction, Endpoint, Prompt)
        for field in fields(kind)
        if field.name not in ("name", "labels", "find", "find_all", "offsets", "version")
    }
    found: dict[type, dict[str, Any]] = {LabelingFunction: {}, Endpoint: {}, Prompt: {}}
    for name, value in settings.items():
        if name not in owners:
            raise ConfigError(unknown_name("setting of a language model", name, owners))
        found[owners[name]][name] = value
    return found


class Asker:
    """Asks a model about texts and makes votes of its answers."""

    def __init__(self, prompt: Prompt, line: Line, answers: Answers | None) -> None:
        self.prompt, self.line, self.answers = prompt, line, answers
        self.counts = Counts()
        folded = {label.casefold(): label for label in prompt.labels}
        self._types = folded | {label: label for label in prompt.labels}

    def digest(self) -> str:
        """By what is asked; who wants no answers kept wants no votes kept, either."""
        if self.answers is None:
            raise Unversioned("answers are not to be kept")
        return digest_of(self.prompt.request(""))

    def find_all(self, views: Sequence[View]) -> list[Found]:
        """The spans of each text, or that it abstains."""
        replies = self._replies(view.text for view in views if view.tokens)
        return [self._found(view, replies) if view.tokens else [] for view in views]

    def _replies(self, texts: Iterable[str]) -> dict[str, Reply]:
        """What is answered to each text: from the disk, else by the endpoint, and kept then."""
        requests = {text: self.prompt.request(text) for text in texts}
        replies: dict[str, Reply] = {}
        if self.answers is not None:
            for text, request in requests.items():
                if (kept := self.answers.get(request)) is not None:
                    replies[text] = Reply(kept, 0)
        missing = {text: request for text, request in requests.items() if text not in replies}
        asked = self.line.ask(list(missing.values()), self._keep)
        return replies | dict(zip(missing, asked, strict=True))

    def _keep(self, request: Mapping[str, Any], answer: Answer) -> None:
        if self.answers is not None:
            self.answers.put(request, answer)

    def _found(self, view: View, replies: dict[str, Reply]) -> Found:
        """The votes of a reply; all that happened is counted, and noted where it is a loss."""
        answer, requests, reason = replies[view.text]
        replies[view.text] = Reply(answer, 0, reason)  # the same text again costs nothing
        self.counts += Counts(texts=1, requests=requests)
        if answer is None:
            self.counts += Counts(failures={reason: 1})
            view.note(ERROR, f"no answer: {reason}")
            return ABSTAIN
        if requests:
            self.counts += Counts(
                prompt_tokens=answer.prompt_tokens, completion_tokens=answer.completion_tokens
            )
        else:
            self.counts += Counts(cached=1)
        return self._votes(view, answer.content)

    def _votes(self, view: View, content: str) -> Found:
        try:
            quotes, unreadable = read_answer(content)
        except DataError as error:
            self.counts += Counts(malformed=1)
            view.note(MALFORMED, str(error))
            return ABSTAIN
        known = [Quote(text, label) for text, kind in quotes if (label := self._label(kind))]
        strange = [quote for quote in quotes if self._label(quote.type) is None]
        aligned = align(Words(view.text, view.chars), known)
        self.counts += Counts(
            quotes=len(quotes),
            unreadable=unreadable,
            strange=len(strange),
            missing=len(aligned.missing),
            inside=len(aligned.inside),
            spans=len(aligned.spans),
        )
        for refused, why in (
            (strange, "of no known type"),
            (aligned.missing, "not in the text"),
            (aligned.inside, "inside a longer one"),
        ):
            for quote in refused:
                view.note(REFUSED, f"{shown(quote.text)} {shown(quote.type)} is {why}")
        return aligned.spans

    def _label(self, kind: str) -> str | None:
        """The type that a model means, whatever its case."""
        kind = kind.strip()
        return self._types.get(kind, self._types.get(kind.casefold()))

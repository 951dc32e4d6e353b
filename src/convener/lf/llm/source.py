"""A language model as a source: any endpoint that speaks OpenAI's protocol.

`prompt` writes the request, `endpoint` sends it, `answers` keeps what came, `reading` finds the
quotes in it and `quotes` their places in the text; `counts` tells what happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from convener import storage
from convener.config import config_from_dict
from convener.data.issues import short_repr
from convener.data.tables import Table
from convener.data.tags import ABSTAIN
from convener.errors import ConfigError, DataError, unknown_name_message
from convener.lf.doc import Doc
from convener.lf.fingerprint import NotFingerprintable
from convener.lf.function import LabelingFunction, RawOutput
from convener.lf.llm.client import Client, ClientConfig, RequestResult, Response, ResponseCache
from convener.lf.llm.prompt import Prompt, parse_response
from convener.lf.llm.quotes import Quote, QuoteFinder, align_quotes
from convener.lf.workers import ERROR
from convener.storage import compute_digest


def _count(description: str) -> Any:
    return field(default=0, metadata={"says": description})


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Requests, tokens and quotes of some texts; counts of more texts can be added.

    >>> one = Usage(texts=2, requests=3, failures={"HTTP 500": 1})
    >>> (one + one).requests, (one + one).failures, one.failed
    (6, {'HTTP 500': 2}, 1)
    """

    texts: int = _count("texts asked about")
    cache_hits: int = _count("answers that were there already")
    requests: int = _count("requests, with those made again")
    prompt_tokens: int = _count("tokens read by the model")
    completion_tokens: int = _count("tokens written by the model")
    malformed_responses: int = _count("answers that hold no list of quotes: the text abstains")
    quotes: int = _count("quotes")
    invalid_entries: int = _count("entries without a text and a type: refused")
    unknown_types: int = _count("quotes of no known type: refused")
    not_in_text: int = _count("quotes that are not in the text: refused")
    overlapped: int = _count("quotes inside longer ones: refused")
    spans: int = _count("spans")
    failures: Mapping[str, int] = field(default_factory=dict)
    """Texts without an answer, which abstain, by reason."""

    @property
    def failed(self) -> int:
        """Texts without an answer."""
        return sum(self.failures.values())

    def __add__(self, other: Usage) -> Usage:
        sums = {name: getattr(self, name) + getattr(other, name) for name in _DESCRIPTIONS}
        reasons = Counter(self.failures) + Counter(other.failures)
        return Usage(**sums, failures=dict(sorted(reasons.items())))

    def table(self, title: str = "Language model") -> Table:
        """All of it, one row each."""
        rows = [(description, getattr(self, name)) for name, description in _DESCRIPTIONS.items()]
        rows.append(("texts without an answer: they abstain", self.failed))
        rows += [(f"  {reason}", count) for reason, count in self.failures.items()]
        return Table(title=title, columns=("", "count"), rows=rows)

    def __str__(self) -> str:
        return str(self.table())


_DESCRIPTIONS = {item.name: item.metadata["says"] for item in fields(Usage) if item.metadata}
MALFORMED, REJECTED = "malformed", "refused"
"""Kinds of notes, beside errors."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LLMSource(LabelingFunction):
    """A labeling function that counts what it asks."""

    annotator: _Annotator

    @property
    def usage(self) -> Usage:
        """What happened so far: requests, tokens, quotes that were refused, texts that failed."""
        return self.annotator.usage


def llm(
    model: str,
    types: Mapping[str, str] | Sequence[str],
    *,
    name: str = "llm",
    cache: bool | str | Path = True,
    **settings: Any,
) -> LLMSource:
    """A source that asks a language model for entities, as quotes that are found in the text.

    model: its name at the endpoint. types: the entity types, with a description each or by name
    only. cache: keep answers on disk, in a folder of one's own if it is named; a text is then
    asked for once. Settings are those of `Prompt` (what is asked), `Endpoint` (where, and how
    patiently) and `LabelingFunction`.

    A text without a usable answer abstains. `counts` tells how many did and why, how many quotes
    were not in the text, and what was paid.

    >>> people = llm("some-model", {"PER": "names of people"}, base_url="http://127.0.0.1:9/v1")
    >>> people.usage.requests
    0
    """
    by_class = _split_settings({"model": model, "types": types, **settings})
    prompt = Prompt(**by_class[Prompt])
    client_config = config_from_dict(ClientConfig, by_class[ClientConfig], kind="setting")
    cache_dir = storage.resolve_cache_dir(cache)
    annotator = _Annotator(prompt, Client(client_config), None if cache_dir is None else ResponseCache(cache_dir))
    lf_settings = {"in_main_process": True, **by_class[LabelingFunction]}
    return LLMSource(
        name=name,
        labels=prompt.labels,
        batch_func=annotator.find_batch,
        annotator=annotator,
        **lf_settings,
    )


def _split_settings(settings: Mapping[str, Any]) -> dict[type, dict[str, Any]]:
    """Settings by the class they belong to."""
    owners = {
        field.name: owner
        for owner in (LabelingFunction, ClientConfig, Prompt)
        for field in fields(owner)
        if field.name not in ("name", "labels", "func", "batch_func", "offsets", "version")
    }
    by_class: dict[type, dict[str, Any]] = {LabelingFunction: {}, ClientConfig: {}, Prompt: {}}
    for name, value in settings.items():
        if name not in owners:
            raise ConfigError(unknown_name_message("setting of a language model", name, owners))
        by_class[owners[name]][name] = value
    return by_class


class _Annotator:
    """Asks a model about texts and makes votes of its answers."""

    def __init__(self, prompt: Prompt, client: Client, response_cache: ResponseCache | None) -> None:
        self.prompt, self.client, self.response_cache = prompt, client, response_cache
        self.usage = Usage()
        casefolded = {label.casefold(): label for label in prompt.labels}
        self._label_by_name = casefolded | {label: label for label in prompt.labels}

    def fingerprint(self) -> str:
        """By what is asked; who wants no answers kept wants no votes kept, either."""
        if self.response_cache is None:
            raise NotFingerprintable("answers are not to be kept")
        return compute_digest(self.prompt.request(""))

    def find_batch(self, docs: Sequence[Doc]) -> list[RawOutput]:
        """The spans of each text, or that it abstains."""
        results = self._get_results(doc.text for doc in docs if doc.tokens)
        return [self._to_output(view, results) if view.tokens else [] for view in docs]

    def _get_results(self, texts: Iterable[str]) -> dict[str, RequestResult]:
        """What is answered to each text: from the disk, else by the endpoint, and kept then."""
        requests = {text: self.prompt.request(text) for text in texts}
        results: dict[str, RequestResult] = {}
        if self.response_cache is not None:
            for text, request in requests.items():
                if (cached := self.response_cache.get(request)) is not None:
                    results[text] = RequestResult(cached, 0)
        missing = {text: request for text, request in requests.items() if text not in results}
        fetched = self.client.send(list(missing.values()), self._store)
        return results | dict(zip(missing, fetched, strict=True))

    def _store(self, request: Mapping[str, Any], response: Response) -> None:
        if self.response_cache is not None:
            self.response_cache.put(request, response)

    def _to_output(self, doc: Doc, results: dict[str, RequestResult]) -> RawOutput:
        """The votes of a reply; all that happened is counted, and noted where it is a loss."""
        response, num_requests, error = results[doc.text]
        results[doc.text] = RequestResult(response, 0, error)  # the same text again costs nothing
        self.usage += Usage(texts=1, requests=num_requests)
        if response is None:
            self.usage += Usage(failures={error: 1})
            doc.report_issue(ERROR, f"no answer: {error}")
            return ABSTAIN
        if num_requests:
            self.usage += Usage(prompt_tokens=response.prompt_tokens, completion_tokens=response.completion_tokens)
        else:
            self.usage += Usage(cache_hits=1)
        return self._parse_votes(doc, response.content)

    def _parse_votes(self, doc: Doc, content: str) -> RawOutput:
        try:
            quotes, invalid_entries = parse_response(content)
        except DataError as error:
            self.usage += Usage(malformed_responses=1)
            doc.report_issue(MALFORMED, str(error))
            return ABSTAIN
        known_quotes = [Quote(text, label) for text, kind in quotes if (label := self._match_label(kind))]
        unknown_quotes = [quote for quote in quotes if self._match_label(quote.type) is None]
        aligned = align_quotes(QuoteFinder(doc.text, doc.token_offsets), known_quotes)
        self.usage += Usage(
            quotes=len(quotes),
            invalid_entries=invalid_entries,
            unknown_types=len(unknown_quotes),
            not_in_text=len(aligned.not_in_text),
            overlapped=len(aligned.overlapped),
            spans=len(aligned.spans),
        )
        for rejected, reason in (
            (unknown_quotes, "of no known type"),
            (aligned.not_in_text, "not in the text"),
            (aligned.overlapped, "inside a longer one"),
        ):
            for quote in rejected:
                doc.report_issue(REJECTED, f"{short_repr(quote.text)} {short_repr(quote.type)} is {reason}")
        return aligned.spans

    def _match_label(self, kind: str) -> str | None:
        """The type that a model means, whatever its case."""
        kind = kind.strip()
        return self._label_by_name.get(kind, self._label_by_name.get(kind.casefold()))

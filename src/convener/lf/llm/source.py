"""A language model behind an OpenAI-compatible API as a labeling function.

`prompt` builds the request and parses the response, `client` sends the request and caches the
response, `quotes` aligns the quotes with the tokens of the text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Unpack

from convener.cache import resolve_cache_dir
from convener.config import config_from_dict
from convener.data.issues import short_repr
from convener.data.tables import Table
from convener.data.tags import ABSTAIN
from convener.errors import ConfigError, DataError, unknown_name_message
from convener.lf.doc import Doc
from convener.lf.fingerprint import NotFingerprintable
from convener.lf.function import LabelingFunction, LFSettings, RawOutput
from convener.lf.llm.client import Client, ClientConfig, RequestResult, Response, ResponseCache
from convener.lf.llm.prompt import Example, Prompt, parse_response
from convener.lf.llm.quotes import Quote, QuoteFinder, align_quotes
from convener.lf.workers import ERROR
from convener.storage import compute_digest

MALFORMED, REJECTED = "malformed", "refused"
"""Kinds of issues beside errors: unusable responses, and quotes that were rejected."""


class LLMSettings(LFSettings, total=False):
    """Settings of `llm`: fields of `Prompt`, `ClientConfig` and `LabelingFunction`, which explain them."""

    system: str
    prompt: str
    examples: Sequence[Example]
    temperature: float | None
    options: Mapping[str, Any]
    base_url: str | None
    api_key_env: str
    concurrency: int
    timeout: float
    max_attempts: int
    max_consecutive_failures: int


def llm(
    model: str,
    types: Mapping[str, str] | Sequence[str],
    *,
    name: str = "llm",
    cache: bool | str | Path = True,
    **settings: Unpack[LLMSettings],
) -> LLMSource:
    """Return a labeling function that asks a language model for entities as quotes from the text.

    model     name of the model at the server
    types     entity types: a mapping to descriptions, or a list of names
    cache     cache folder of the responses; True uses the default folder, False stores nothing
    settings  fields of `Prompt` (the request), `ClientConfig` (the server) and `LabelingFunction`

    The function abstains on texts without a usable response. `usage` counts these texts by reason,
    rejected quotes, requests and tokens.

    >>> people = llm("some-model", {"PER": "names of people"}, base_url="http://127.0.0.1:9/v1")
    >>> people.usage.requests
    0
    """
    by_class = _split_settings({"model": model, "types": types, **settings})
    prompt = Prompt(**by_class[Prompt])
    client_config = config_from_dict(ClientConfig, by_class[ClientConfig], kind="setting")
    cache_dir = resolve_cache_dir(cache)
    annotator = _Annotator(prompt, Client(client_config), None if cache_dir is None else ResponseCache(cache_dir))
    lf_settings = {"in_main_process": True, **by_class[LabelingFunction]}
    return LLMSource(
        name=name,
        labels=prompt.labels,
        batch_func=annotator.find_batch,
        annotator=annotator,
        **lf_settings,
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LLMSource(LabelingFunction):
    """A labeling function that queries a language model and counts its usage."""

    annotator: _Annotator

    @property
    def usage(self) -> Usage:
        """Requests, tokens, rejected quotes and failed texts so far."""
        return self.annotator.usage


def _count(description: str) -> Any:
    return field(default=0, metadata={"description": description})


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Counts of requests, tokens and quotes; instances can be added.

    >>> one = Usage(texts=2, requests=3, failures={"HTTP 500": 1})
    >>> (one + one).requests, (one + one).failures, one.failed
    (6, {'HTTP 500': 2}, 1)
    """

    texts: int = _count("texts")
    cache_hits: int = _count("cache hits")
    requests: int = _count("requests, retries included")
    prompt_tokens: int = _count("prompt tokens")
    completion_tokens: int = _count("completion tokens")
    malformed_responses: int = _count("malformed responses (abstains)")
    quotes: int = _count("quotes")
    invalid_entries: int = _count("rejected: entry without text and type")
    unknown_types: int = _count("rejected: unknown type")
    not_in_text: int = _count("rejected: not in the text")
    overlapped: int = _count("rejected: inside a longer quote")
    spans: int = _count("spans")
    failures: Mapping[str, int] = field(default_factory=dict)
    """Number of texts without a response, by reason; the source abstains on them."""

    @property
    def failed(self) -> int:
        """Number of texts without a response."""
        return sum(self.failures.values())

    def __add__(self, other: Usage) -> Usage:
        sums = {name: getattr(self, name) + getattr(other, name) for name in _DESCRIPTIONS}
        reasons = Counter(self.failures) + Counter(other.failures)
        return Usage(**sums, failures=dict(sorted(reasons.items())))

    def table(self, title: str = "Language model") -> Table:
        """Return all counts, one row each."""
        rows = [(description, getattr(self, name)) for name, description in _DESCRIPTIONS.items()]
        rows.append(("texts without a response (abstains)", self.failed))
        rows += [(f"  {reason}", count) for reason, count in self.failures.items()]
        return Table(title=title, columns=("", "count"), rows=rows)

    def __str__(self) -> str:
        return str(self.table())


_DESCRIPTIONS = {item.name: item.metadata["description"] for item in fields(Usage) if item.metadata}


def _split_settings(settings: Mapping[str, Any]) -> dict[type, dict[str, Any]]:
    """Group settings by the class they belong to."""
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
    """Queries a model about texts and turns its responses into spans."""

    def __init__(self, prompt: Prompt, client: Client, response_cache: ResponseCache | None) -> None:
        self.prompt, self.client, self.response_cache = prompt, client, response_cache
        self.usage = Usage()
        casefolded = {label.casefold(): label for label in prompt.labels}
        self._label_by_name = casefolded | {label: label for label in prompt.labels}

    def fingerprint(self) -> str:
        """Return a digest of the request; without a response cache the votes are not cached either."""
        if self.response_cache is None:
            raise NotFingerprintable("the response cache is off")
        return compute_digest(self.prompt.request(""))

    def find_batch(self, docs: Sequence[Doc]) -> list[RawOutput]:
        """Return the spans of each text, or ABSTAIN."""
        results = self._get_results(doc.text for doc in docs if doc.tokens)
        return [self._to_output(doc, results) if doc.tokens else [] for doc in docs]

    def _get_results(self, texts: Iterable[str]) -> dict[str, RequestResult]:
        """Return the result for each text, from the cache or else from the server."""
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
        """Return the spans of a response; update the counts and report issues."""
        response, num_requests, error = results[doc.text]
        results[doc.text] = RequestResult(response, 0, error)  # a repeated text counts as a cache hit
        self.usage += Usage(texts=1, requests=num_requests)
        if response is None:
            self.usage += Usage(failures={error: 1})
            doc.report_issue(ERROR, f"no response: {error}")
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
            (unknown_quotes, "of unknown type"),
            (aligned.not_in_text, "not in the text"),
            (aligned.overlapped, "inside a longer quote"),
        ):
            for quote in rejected:
                doc.report_issue(REJECTED, f"{short_repr(quote.text)} {short_repr(quote.type)} is {reason}")
        return aligned.spans

    def _match_label(self, kind: str) -> str | None:
        """Return the entity type that a model names: an exact match, or else regardless of case; None if unknown."""
        kind = kind.strip()
        return self._label_by_name.get(kind, self._label_by_name.get(kind.casefold()))

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
from convener.caching import compute_digest
from convener.errors import ConfigError, DataError, unknown_name_message
from convener.io.messages import short_repr
from convener.lf.function import ABSTAIN, LabelingFunction, RawOutput
from convener.lf.llm.answers import Response, ResponseCache
from convener.lf.llm.counts import Usage
from convener.lf.llm.endpoint import Client, ClientConfig, RequestResult
from convener.lf.llm.prompt import Prompt
from convener.lf.llm.quotes import Quote, QuoteFinder, align_quotes
from convener.lf.llm.reading import parse_response
from convener.lf.version import NotFingerprintable
from convener.lf.view import Doc
from convener.lf.work import ERROR
from convener.settings import config_from_dict

__all__ = ["ClientConfig", "LLMSource", "Prompt", "Usage", "llm"]

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
    cache_dir = caching.resolve_cache_dir(cache)
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

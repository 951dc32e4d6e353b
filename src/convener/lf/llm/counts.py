"""What happened when a model was asked, in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from convener.tables import Table


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

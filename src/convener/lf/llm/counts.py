"""What happened when a model was asked, in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from convener.tables import Table


def _says(text: str) -> Any:
    return field(default=0, metadata={"says": text})


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Requests, tokens and quotes of some texts; counts of more texts can be added.

    >>> one = Counts(texts=2, requests=3, failures={"HTTP 500": 1})
    >>> (one + one).requests, (one + one).failures, one.failed
    (6, {'HTTP 500': 2}, 1)
    """

    texts: int = _says("texts asked about")
    cached: int = _says("answers that were there already")
    requests: int = _says("requests, with those made again")
    prompt_tokens: int = _says("tokens read by the model")
    completion_tokens: int = _says("tokens written by the model")
    malformed: int = _says("answers that hold no list of quotes: the text abstains")
    quotes: int = _says("quotes")
    unreadable: int = _says("entries without a text and a type: refused")
    strange: int = _says("quotes of no known type: refused")
    missing: int = _says("quotes that are not in the text: refused")
    inside: int = _says("quotes inside longer ones: refused")
    spans: int = _says("spans")
    failures: Mapping[str, int] = field(default_factory=dict)
    """Texts without an answer, which abstain, by reason."""

    @property
    def failed(self) -> int:
        """Texts without an answer."""
        return sum(self.failures.values())

    def __add__(self, other: Counts) -> Counts:
        sums = {name: getattr(self, name) + getattr(other, name) for name in _SAYS}
        reasons = Counter(self.failures) + Counter(other.failures)
        return Counts(**sums, failures=dict(sorted(reasons.items())))

    def table(self, title: str = "Language model") -> Table:
        """All of it, one row each."""
        rows = [(text, getattr(self, name)) for name, text in _SAYS.items()]
        rows.append(("texts without an answer: they abstain", self.failed))
        rows += [(f"  {reason}", count) for reason, count in self.failures.items()]
        return Table(title=title, columns=("", "count"), rows=rows)

    def __str__(self) -> str:
        return str(self.table())


_SAYS = {item.name: item.metadata["says"] for item in fields(Counts) if item.metadata}

"""Pages, read as a browser would."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from convener.report.sentence_index import Query
from convener.report.viewer import QUERY_PARAMS

VOID = {"meta", "input", "br"}


def params_of(query: Query) -> dict[str, str]:
    """A query, as the form and the addresses of the viewer have it."""
    return {name: getattr(query, of_query) for name, of_query in QUERY_PARAMS.items()}


@dataclass
class Element:
    """One element: its tag, attributes and all text inside."""

    tag: str
    attributes: dict[str, str]
    text: str = ""


@dataclass
class Page:
    """The elements of a page in their order, and tables by caption."""

    elements: list[Element] = field(default_factory=list)
    tables: dict[str, list[list[str]]] = field(default_factory=dict)

    def of(self, tag: str) -> list[Element]:
        return [element for element in self.elements if element.tag == tag]

    def named(self, name: str) -> Element:
        (found,) = [x for x in self.elements if x.attributes.get("id") == name]
        return found

    def json(self, name: str) -> Any:
        """What stands in a script element."""
        return json.loads(self.named(name).text)

    def lines(self, tag: str, kind: str = "") -> list[str]:
        """Texts of elements, blanks as one."""
        return [
            " ".join(element.text.split())
            for element in self.of(tag)
            if not kind or kind in element.attributes.get("class", "").split()
        ]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page, self.open = Page(), []
        self.rows: list[list[str]] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attributes]
        assert len(names) == len(set(names)), f"{tag} has an attribute twice: {names}"
        element = Element(tag, {name: value or "" for name, value in attributes})
        self.page.elements.append(element)
        if tag == "table":
            self.rows = []
        if tag == "tr":
            self.rows.append([])
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        element = self.open.pop()
        assert element.tag == tag, f"<{element.tag}> is ended by </{tag}>"
        if tag in ("td", "th"):
            self.rows[-1].append(element.text)
        if tag == "caption":
            self.page.tables[element.text] = self.rows

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.text += data

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"unknown declaration {data!r}")


def page_of(text: str) -> Page:
    """A page, parsed; elements must be nested as they should."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader.page

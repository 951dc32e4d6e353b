"""Parser for HTML pages that also checks their nesting."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

VOID = {"meta", "input", "br"}


@dataclass
class Element:
    """One element: tag, attributes and all text inside."""

    tag: str
    attributes: dict[str, str]
    text: str = ""


@dataclass
class Page:
    """The elements of a page in document order, and tables by caption."""

    elements: list[Element] = field(default_factory=list)
    tables: dict[str, list[list[str]]] = field(default_factory=dict)

    def by_tag(self, tag: str) -> list[Element]:
        return [element for element in self.elements if element.tag == tag]

    def by_id(self, name: str) -> Element:
        (element,) = [x for x in self.elements if x.attributes.get("id") == name]
        return element

    def json(self, name: str) -> Any:
        """Content of a script element with JSON data."""
        return json.loads(self.by_id(name).text)

    def texts(self, tag: str, css_class: str = "") -> list[str]:
        """Texts of elements with white space normalised."""
        return [
            " ".join(element.text.split())
            for element in self.by_tag(tag)
            if not css_class or css_class in element.attributes.get("class", "").split()
        ]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page, self.open = Page(), []
        self.rows: list[list[str]] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attributes]
        assert len(names) == len(set(names)), f"{tag} has a duplicate attribute: {names}"
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
        assert element.tag == tag, f"<{element.tag}> is closed by </{tag}>"
        if tag in ("td", "th"):
            self.rows[-1].append(element.text)
        if tag == "caption":
            self.page.tables[element.text] = self.rows

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.text += data

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"unknown declaration {data!r}")


def parse_page(text: str) -> Page:
    """Parse a page; fails if elements are not nested correctly."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader.page

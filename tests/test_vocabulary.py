"""Identifiers use the words of docs/glossary.md; the private words of version 0.1 do not come back."""

import io
import keyword
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "benchmarks", "examples", "tools")
FILES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]

RETIRED = {
    "abstention": {"silence", "silences", "silent", "speaker", "speakers", "speaking", "spoken", "speaks"},
    "cache entry": {"facts"},
    "checkpoint": {"journal"},
    "diagnostics": {"insides"},
    "evidence": {"hear", "hears", "heard", "hearing", "doubt", "clash"},
    "filter": {"odd", "oddity", "oddities"},
    "issue": {"mend", "mends", "mended", "mending"},
    "probability": {"trust"},
    "report": {"sheet", "teller", "told"},
    "run": {"contest", "entrant", "entrants"},
    "score": {"judge", "judges", "judged"},
    "stage": {"thaw", "thawed"},
    "transition": {"moves"},
    "validate": {"settle", "settles", "settled"},
    "vote": {"say", "says", "said"},
    "workers": {"crew", "crews"},
}
"""Words that may not occur in an identifier, by the word that replaced them."""

REPLACEMENT = {word: new for new, words in RETIRED.items() for word in words}


def words_of(identifier: str) -> Iterator[str]:
    """The lower-case words of a name in snake_case or CamelCase."""
    for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier):
        yield part.lower()


def identifiers(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every name in Python source."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and not keyword.iskeyword(token.string):
            yield token.start[0], token.string


def retired_words(source: str) -> list[tuple[int, str, str]]:
    """Line, identifier and replacement for each retired word."""
    return [
        (line, name, REPLACEMENT[word])
        for line, name in identifiers(source)
        for word in words_of(name)
        if word in REPLACEMENT
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_identifier_uses_a_retired_word(path: Path) -> None:
    found = retired_words(path.read_text(encoding="utf-8"))
    listing = "\n".join(f"{path.relative_to(ROOT)}:{line}: {name} (say {new!r})" for line, name, new in found)
    assert not found, listing


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_is_named_by_a_retired_word(path: Path) -> None:
    assert not set(words_of(path.stem)) & REPLACEMENT.keys()


def test_the_guard_finds_what_it_forbids() -> None:
    source = 'def said_votes(x):\n    """What was said."""\n    return Hearing(x.silence)\n'
    assert retired_words(source) == [
        (1, "said_votes", "vote"),
        (3, "Hearing", "evidence"),
        (3, "silence", "abstention"),
    ]

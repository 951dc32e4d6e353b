"""docs/api.md: every public name, and up to date."""

from __future__ import annotations

from tools import write_api_reference

import convener as cv


def test_the_page_is_up_to_date() -> None:
    expected = write_api_reference.render()
    assert write_api_reference.PAGE.read_text(encoding="utf-8") == expected, "run `make api`"
    assert write_api_reference.main(["--check"]) == 0


def test_every_public_name_has_an_entry() -> None:
    page = write_api_reference.PAGE.read_text(encoding="utf-8")
    names = [name for name in cv.__all__ if name not in ("demo", "lf")]
    names += [f"lf.{name}" for name in cv.lf.__all__ if name not in cv.__all__]
    names += [f"demo.{name}" for name in cv.demo.__all__]
    for name in names:
        assert page.count(f"### `{name}`\n") == 1, name


def test_docstrings_become_markdown() -> None:
    docstring = """Return a*b.

name    what it is,
        over two lines
second  <more>
Then a [sentence].

>>> 1 + 1
2"""
    assert write_api_reference._markdown(docstring).split("\n\n") == [
        "Return a\\*b.",
        "- `name`: what it is, over two lines\n- `second`: \\<more>",
        "Then a \\[sentence\\].",
        "```pycon\n>>> 1 + 1\n2\n```",
    ]

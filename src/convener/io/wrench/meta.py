"""The meta file beside a Wrench split."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from convener.errors import DataError
from convener.io.facts import Facts, names_in
from convener.io.files import decoded, neighbours
from convener.io.formats import Content
from convener.io.json_stream import dumped, parsed

SHARED = ("train", "valid", "test")
"""Splits that share one `meta.json`."""


@dataclass(frozen=True)
class Meta:
    """What the meta file says."""

    facts: Facts
    recommended: tuple[str, ...] | None

    @classmethod
    def beside(cls, path: Path) -> Meta:
        """The meta of a split: `<stem>.meta.json`, else `meta.json`, else nothing known."""
        for file in (path.with_name(f"{path.stem}.meta.json"), path.with_name("meta.json")):
            if file.is_file():
                where = str(file)
                values = parsed(decoded(file.read_bytes(), where), where)
                facts = Facts.of_values(values, where, types="entity_types", sources="lf")
                recommended = names_in(values, "lf_rec", where)
                for name in recommended or ():
                    if name not in (facts.sources or ()):
                        raise DataError(f"{file}: 'lf_rec' names {name!r}, which 'lf' does not")
                return cls(facts, recommended)
        return cls(Facts(), None)


def write_meta(content: Content, path: Path) -> None:
    """Write `meta.json` for a split, unless one that says something else is there; else its own."""
    values = Facts.of(content).beyond_sentences(content).values()
    sources = values.pop("sources")
    meta = {"entity_types": values.pop("types"), "lf": sources, "lf_rec": sources, **values}
    text = dumped(meta, f"{path.name}: meta")
    own = path.with_name(f"{path.stem}.meta.json")
    shared = path.stem in SHARED and not neighbours(path, own.name)
    for other in neighbours(path, "meta.json"):
        shared = shared and other.read_bytes() == f"{text}\n".encode()
    file = path.with_name("meta.json") if shared else own
    file.write_text(f"{text}\n", encoding="utf-8", newline="\n")

"""The meta file beside a Wrench split."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from convener.errors import DataError
from convener.io.facts import Metadata, parse_names
from convener.io.files import decode_utf8, sibling_files
from convener.io.formats import LabeledData
from convener.io.json_stream import dump_json, parse_json

SHARED_META_SPLITS = ("train", "valid", "test")
"""Splits that share one `meta.json`."""


@dataclass(frozen=True)
class WrenchMeta:
    """What the meta file says."""

    metadata: Metadata
    recommended: tuple[str, ...] | None

    @classmethod
    def for_split(cls, path: Path) -> WrenchMeta:
        """The meta of a split: `<stem>.meta.json`, else `meta.json`, else nothing known."""
        for file in (path.with_name(f"{path.stem}.meta.json"), path.with_name("meta.json")):
            if file.is_file():
                where = str(file)
                values = parse_json(decode_utf8(file.read_bytes(), where), where)
                metadata = Metadata.from_dict(values, where, types_key="entity_types", sources_key="lf")
                recommended = parse_names(values, "lf_rec", where)
                for name in recommended or ():
                    if name not in (metadata.sources or ()):
                        raise DataError(f"{file}: 'lf_rec' names {name!r}, which 'lf' does not")
                return cls(metadata, recommended)
        return cls(Metadata(), None)


def write_meta(content: LabeledData, path: Path) -> None:
    """Write `meta.json` for a split, unless one that says something else is there; else its own."""
    values = Metadata.from_content(content).without_inferable_contents(content).to_dict()
    sources = values.pop("sources")
    meta = {"entity_types": values.pop("types"), "lf": sources, "lf_rec": sources, **values}
    text = dump_json(meta, f"{path.name}: meta")
    own_file = path.with_name(f"{path.stem}.meta.json")
    use_shared = path.stem in SHARED_META_SPLITS and not sibling_files(path, own_file.name)
    for existing in sibling_files(path, "meta.json"):
        use_shared = use_shared and existing.read_bytes() == f"{text}\n".encode()
    file = path.with_name("meta.json") if use_shared else own_file
    file.write_text(f"{text}\n", encoding="utf-8", newline="\n")

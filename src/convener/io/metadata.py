"""Metadata of a file: types, sources, model and contents; and the options applied to it.

Every format stores the metadata as one JSON object. Files that convener did not write may have some of its keys.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from convener.data.coarse import fine_types, resolve_coarse_labels
from convener.data.dataset import Dataset, Text
from convener.data.issues import error_location, short_repr
from convener.data.predictions import GOLD_USES, GoldUse, Predictions
from convener.data.ragged import StringArray
from convener.data.tags import TagSet
from convener.data.validation import UNMARKED, Unmarked
from convener.errors import DataError, UnknownNameError, unknown_name_message
from convener.io.formats import LabeledData, ReadOptions, get_dataset
from convener.io.json_stream import dump_json
from convener.storage import parse_json

METADATA_VERSION = 2
_VERSION_1_UNMARKED: Mapping[str, Unmarked] = {"O": "abstain", "abstain": "outside"}
"""Values of the key `silence` of version 1, which is `unmarked` since version 2; "abstain" changed its meaning."""
_VERSION_1_KEYS = {
    "silence": "unmarked",
    "precision": "prior_precision",
    "coarse": "coarse_types",
    "settings": "model_settings",
    "holds": "contents",
    "sees_all": "complete_sources",
    "offsets": "span_unit",
}
"""Keys of version 1, and their names since version 2."""
VERSION_1_COLUMNS = {"chars": "token_offsets", "char_start": "doc_offset"}
"""Columns of long tables and Hugging Face folders of version 1, and their names since version 2."""
MAX_TYPES = 16_383
"""Maximum number of types: labels have 16 bits."""
# Names in `Metadata.contents`, and the fields of Dataset and Predictions they stand for.
_DATASET_CONTENTS = {"gold": "gold", "text": "text", "documents": "doc_ids"}
_PREDICTION_CONTENTS = {"probabilities": "probabilities", "scores": "span_scores"}


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """Metadata of one file; None where the file does not state a value."""

    version: int = METADATA_VERSION
    """Version of the file that was read."""
    types: tuple[str, ...] | None = None
    sources: tuple[str, ...] | None = None
    unmarked: Mapping[str, Unmarked] = field(default_factory=dict)
    """Meaning of unmarked tokens by source, see `Dataset.unmarked`."""
    prior_precision: Mapping[str, float] = field(default_factory=dict)
    """Presumed precision of the votes of a source, where known."""
    coarse: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Coarse labels among the types, and the types each allows."""
    model: str | None = None
    """Name of the model; not None, but possibly "", in files of predictions."""
    model_settings: Mapping[str, Any] = field(default_factory=dict)
    uses_gold: GoldUse = "none"
    """Which gold labels the model used."""
    contents: tuple[str, ...] = ()
    """Optional parts of the file, so that an empty column can be told from a missing one."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further keys, used by single formats."""

    @classmethod
    def from_content(cls, content: LabeledData, **extra: Any) -> Metadata:
        """Return the metadata of a dataset or of predictions."""
        data = get_dataset(content)
        contents = [name for name, field_name in _DATASET_CONTENTS.items() if getattr(data, field_name) is not None]
        metadata = cls(
            types=data.tags.types,
            sources=data.sources,
            unmarked=dict(zip(data.sources, data.unmarked, strict=True)),
            prior_precision={
                name: precision
                for name, precision in zip(data.sources, data.prior_precision, strict=True)
                if precision is not None
            },
            coarse=data.coarse,
            contents=tuple(contents),
            extra=extra,
        )
        if not isinstance(content, Predictions):
            return metadata
        contents += [
            name for name, field_name in _PREDICTION_CONTENTS.items() if getattr(content, field_name) is not None
        ]
        return replace(
            metadata,
            model=content.model,
            model_settings=dict(content.settings),
            uses_gold=content.uses_gold,
            contents=tuple(contents),
        )

    def prediction_fields(self) -> dict[str, Any]:
        """Return the fields of Predictions that the metadata state: model, settings and uses_gold."""
        return {"model": self.model or "", "settings": self.model_settings, "uses_gold": self.uses_gold}

    def to_dict(self) -> dict[str, Any]:
        """Return the metadata as the JSON object that `from_dict` reads."""
        result: dict[str, Any] = {
            "version": METADATA_VERSION,
            "types": self.types,
            "sources": self.sources,
            "unmarked": self.unmarked,
        }
        if self.prior_precision:
            result["prior_precision"] = self.prior_precision
        if self.coarse:
            result["coarse_types"] = self.coarse
        if self.model is not None:
            result |= {"model": self.model, "model_settings": self.model_settings, "uses_gold": self.uses_gold}
        if self.contents:
            result["contents"] = self.contents
        return {**result, **self.extra}

    def to_json(self) -> str:
        """Return the metadata as one line of JSON."""
        return dump_json(self.to_dict(), "the model's settings")

    @classmethod
    def from_dict(cls, values: Any, where: str, *, types_key: str = "types", sources_key: str = "sources") -> Metadata:
        """Return the metadata in a JSON object, whose keys for types and sources may differ."""
        if not isinstance(values, dict):
            raise DataError(f"{where}: expected a JSON object, got {short_repr(values)}")
        version, values = _upgrade(values, where)
        unmarked, model_settings = values.get("unmarked") or {}, values.get("model_settings") or {}
        model = values.get("model")
        _check_words(unmarked, "unmarked", UNMARKED, where)
        prior_precision = values.get("prior_precision") or {}
        if not isinstance(prior_precision, dict) or not all(
            isinstance(probability, float) and 0 < probability < 1 for probability in prior_precision.values()
        ):
            raise DataError(
                f"{where}: 'prior_precision' must map sources to numbers in (0, 1), got {short_repr(prior_precision)}"
            )
        if not isinstance(model_settings, dict):
            raise DataError(f"{where}: 'model_settings' must be an object, got {short_repr(model_settings)}")
        if not isinstance(model, str | None):
            raise DataError(f"{where}: 'model' must be a string, got {short_repr(model)}")
        uses_gold = values.get("uses_gold", "none")
        if uses_gold not in GOLD_USES:
            raise DataError(f"{where}: 'uses_gold' must be one of {', '.join(GOLD_USES)}, got {short_repr(uses_gold)}")
        type_names = parse_names(values, types_key, where)
        coarse = values.get("coarse_types") or {}
        if not isinstance(coarse, dict):
            raise DataError(f"{where}: 'coarse_types' must map labels to types, got {short_repr(coarse)}")
        coarse = {name: parse_names(coarse, name, where) or () for name in coarse}
        with error_location(where):
            if type_names is not None:
                build_tag_set(type_names)
            if coarse:
                fine_types(type_names or (), coarse)
                coarse = resolve_coarse_labels(coarse, type_names or ())
        return cls(
            version=version,
            types=type_names,
            sources=parse_names(values, sources_key, where),
            unmarked=unmarked,
            prior_precision=prior_precision,
            coarse=coarse,
            model=model,
            model_settings=model_settings,
            uses_gold=uses_gold,
            contents=parse_names(values, "contents", where) or (),
            extra=values,
        )

    @classmethod
    def from_json(cls, text: str, where: str) -> Metadata:
        """Return the metadata that `to_json` wrote."""
        where = f"{where}: convener metadata"
        metadata = cls.from_dict(parse_json(text, where), where)
        if metadata.types is None or metadata.sources is None:
            raise DataError(f"{where}: expected 'types' and 'sources', got {short_repr(metadata.extra)}")
        return metadata

    def without_inferable_contents(self, content: LabeledData) -> Metadata:
        """Return the metadata without the contents that readers can infer from sentences and spans."""
        not_inferable = set() if len(content) else set(self.contents)
        if isinstance(content, Predictions) and not len(content.spans):
            not_inferable.add("scores")
        return replace(self, contents=tuple(name for name in self.contents if name in not_inferable))

    def restore(self, content: LabeledData) -> LabeledData:
        """Return the content with the properties that sentences and spans do not show.

        These are the precision of sources, coarse labels, and columns that exist but are empty.
        """
        if self.prior_precision or self.coarse:
            data = get_dataset(content).with_coarse(self.coarse)
            prior_precision = tuple(self.prior_precision.get(name) for name in data.sources)
            data = replace(data, prior_precision=prior_precision)
            content = replace(content, data=data) if isinstance(content, Predictions) else data
        empty = np.zeros(0, np.float32)
        if isinstance(content, Predictions) and "scores" in self.contents and not len(content.spans):
            content = replace(content, span_scores=empty)
        if len(content) or not self.contents:
            return content
        if isinstance(content, Predictions) and "probabilities" in self.contents:
            content = replace(content, probabilities=empty.reshape(0, len(content.data.fine_tags)))
        empty_columns = {
            "gold": np.zeros(0, np.int16),
            "text": Text(StringArray.from_list([]), np.zeros((0, 2), np.int32), np.zeros(0, np.int64)),
            "documents": StringArray.from_list([]),
        }
        return replace_dataset_fields(
            content,
            **{
                field_name: empty_columns[name]
                for name, field_name in _DATASET_CONTENTS.items()
                if name in self.contents
            },
        )

    def select_types(self, options: ReadOptions) -> tuple[str, ...] | None:
        """Return the requested types and the coarse labels of the file, or by default the types it names."""
        if options.types is None:
            return self.types
        return (*(name for name in options.types if name not in self.coarse), *self.coarse)

    def unmarked_by_source(
        self, sources: Sequence[str], options: ReadOptions, default: Unmarked = "abstain"
    ) -> tuple[Unmarked, ...]:
        """Return the meaning of unmarked tokens of each of these sources; the default where the file has none."""
        return tuple(options.unmarked or self.unmarked.get(name, default) for name in sources)

    def undecided_sources(self, sources: Sequence[str], options: ReadOptions) -> tuple[str, ...]:
        """Return the sources for which neither the metadata nor the options state what unmarked tokens mean."""
        return () if options.unmarked else tuple(name for name in sources if name not in self.unmarked)


def _upgrade(values: dict[str, Any], where: str) -> tuple[int, dict[str, Any]]:
    """Return the version of metadata, and the metadata with the keys and values of the current version.

    In some formats version 1 was written without its number.
    """
    version = values.get("version", METADATA_VERSION if "unmarked" in values else 1)
    if version not in (1, METADATA_VERSION):
        raise DataError(f"{where}: expected version 1 or {METADATA_VERSION}, got {short_repr(version)}")
    if version == METADATA_VERSION:
        return version, values
    words = values.get("silence") or {}
    _check_words(words, "silence", _VERSION_1_UNMARKED, where)
    upgraded = {_VERSION_1_KEYS.get(key, key): value for key, value in values.items()}
    if "silence" in values:
        upgraded["unmarked"] = {name: _VERSION_1_UNMARKED[word] for name, word in words.items()}
    if values.get("offsets") == "tokens":
        upgraded["span_unit"] = "token"
    return version, upgraded


def _check_words(words_by_source: Any, key: str, allowed: Collection[str], where: str) -> None:
    """Raise DataError unless the value of a key is one of the allowed words for each source."""
    if isinstance(words_by_source, dict) and all(
        isinstance(word, str) and word in allowed for word in words_by_source.values()
    ):
        return
    choices = " or ".join(map(repr, allowed))
    raise DataError(f"{where}: {key!r} must map sources to {choices}, got {short_repr(words_by_source)}")


def replace_dataset_fields(content: LabeledData, **changes: Any) -> LabeledData:
    """Return the content with some fields of its dataset replaced."""
    data = replace(get_dataset(content), **changes)
    return replace(content, data=data) if isinstance(content, Predictions) else data


def parse_names(values: Mapping[str, Any], key: str, where: str) -> tuple[str, ...] | None:
    """Return the list of distinct names under a key; None if the key is missing."""
    names = values.get(key)
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise DataError(f"{where}: {key!r} must be a list of names, got {short_repr(names)}")
    if len(set(names)) != len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{where}: {key!r} contains {duplicate!r} twice")
    return tuple(names)


def build_tag_set(
    given_types: Sequence[str] | None,
    observed_types: Iterable[str] = (),
    default_types: Sequence[str] | None = None,
) -> TagSet:
    """Return the tag set of the given types, by default of the observed ones, sorted; without any, of the default."""
    types = tuple(sorted(observed_types) if given_types is None else given_types) or tuple(default_types or ())
    if not types:
        raise DataError("the file names no entity types and contains no spans; pass types=[...]")
    if len(types) > MAX_TYPES:
        raise DataError(f"expected at most {MAX_TYPES} entity types, got {len(types)}")
    return TagSet(types)


def select_sources(
    available: Sequence[str],
    options: ReadOptions,
    where: str,
    recommended: Sequence[str] | None = None,
) -> tuple[str, ...]:
    """Return the sources that the options select, in the requested order."""
    if isinstance(options.sources, str):
        use_all = options.sources == "all" or recommended is None
        return tuple(available if use_all else recommended or ())
    for name in options.sources:
        if name not in available:
            raise UnknownNameError(f"{where}: {unknown_name_message('source', name, available)}")
    return options.sources


def apply_read_options(content: LabeledData, options: ReadOptions, where: str) -> LabeledData:
    """Return the content of a native file with the sources, types and meaning of unmarked tokens of the options."""
    data = get_dataset(content)
    selected = data.select_sources(select_sources(data.sources, options, where))
    if options.unmarked is not None:
        unmarked = (options.unmarked,) * len(selected.sources)
        selected = selected.with_sources(selected.sources, selected.votes, unmarked)
    content = selected if isinstance(content, Dataset) else replace(content, data=selected)
    if options.types is None:
        return content
    with error_location(where):
        return content.with_types(options.types)


def unfiltered(options: ReadOptions) -> ReadOptions:
    """Return the options without those that `apply_read_options` applies later."""
    return replace(options, sources="all", types=None, unmarked=None)

"""The tags of a token classifier of the Hugging Face kind as votes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from convener.caching import digest_of
from convener.encode.folder import CONFIG, check_folder, digests_of, read_json
from convener.encode.hub import hub_folder
from convener.encode.loaded import Loaded, Reading
from convener.encode.windows import windows_of
from convener.errors import ConfigError, DataError, check_known
from convener.lf.batched import Batched, Labels, located, renamings
from convener.lf.function import Found, LabelingFunction
from convener.lf.view import View
from convener.packed import Strings, offsets_of
from convener.schemes import Place, bio_labels, parse_tag
from convener.tags import TagSet

KIND = "AutoModelForTokenClassification"
DTYPES = ("auto", "float32", "bfloat16")


def transformers_model(
    model: str | Path,
    labels: Labels,
    *,
    name: str | None = None,
    dtype: Literal["auto", "float32", "bfloat16"] = "float32",
    window: int | None = None,
    overlap: float = 0.5,
    device: str = "auto",
    budget: int | None = None,
    **settings: Any,
) -> LabelingFunction:
    """A source that gives the spans of a token classification model.

    model: a folder, or a name on the Hugging Face hub. labels: the types to use, or a mapping
    from the model's types to yours; others are left out. dtype: of the computation; "auto" is
    bfloat16 where the processor has it, faster there, and other votes than elsewhere. window,
    overlap, device and budget are those of an encoder. Other settings are those of
    `LabelingFunction`.

    The model is given our words; a word has the tag of its first piece, and a tag that goes on
    where nothing began begins a span. It is loaded when the first text comes, once in a process,
    and runs in the calling process: it uses all of the machine by itself.
    """
    if dtype not in DTYPES:
        raise ConfigError(f"dtype must be one of {', '.join(DTYPES)}; got {dtype!r}")
    config = Reading(precision=dtype, window=window, overlap=overlap, device=device, budget=budget)
    place, renamed = located(model), renamings(labels)
    if Path(place).is_dir():
        check_folder(Path(place))
        tags = read_json(Path(place) / CONFIG).get("id2label")
        if isinstance(tags, dict):
            types = _types(map(_meaning, map(str, tags.values())))
            check_known(f"entity type of {place}", renamed, types)
    source = Tags(place, renamed, config)
    return source.as_function(
        name or Path(place).name, renamed.values(), {"alone": True, **settings}
    )


@dataclass(frozen=True)
class Tags(Batched):
    """Spans that a token classifier's tags spell, renamed."""

    model: str
    renamed: dict[str, str]
    config: Reading

    def find_all(self, views: Sequence[View]) -> list[Found]:
        """The spans of each text."""
        loaded = _loaded(self.model, self.config)
        offsets = offsets_of(map(len, views))
        tags = loaded.model.config.id2label
        meanings = [_meaning(tags[number]) for number in range(len(tags))]
        types = _types(meanings)
        check_known(f"entity type of {self.model}", self.renamed, types)
        place = np.array([place for place, _ in meanings], np.int8)
        kind = np.array([types.index(kind) if kind else 0 for _, kind in meanings], np.int16)
        best = self._best(loaded, Strings.of(chain.from_iterable(views)), offsets)
        # A span ends with its sentence, also where a document is read at once.
        sentences = offsets_of(end - start for view in views for start, end in view.sentences)
        spelt, _ = bio_labels(place[best], kind[best], sentences)
        spans = TagSet(tuple(types)).spans(spelt, offsets).by_sentence(len(views))
        return [
            [
                (start, end, self.renamed[types[number]])
                for start, end, number in row
                if types[number] in self.renamed
            ]
            for row in spans
        ]

    def _best(
        self, loaded: Loaded, tokens: Strings, offsets: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The number of each word's tag: the best of its first piece.  -> (N,)"""
        best = np.zeros(len(tokens), np.int64)
        pieces = loaded.pieces(tokens, offsets)
        windows = windows_of(
            pieces.counts, offsets, capacity=loaded.capacity, overlap=self.config.overlap
        )
        for batch in loaded.batches(pieces, windows):
            logits = loaded.read(batch).logits
            words, first = batch.first_pieces()
            rows = logits.reshape(-1, logits.shape[2])[loaded.torch.from_numpy(first)]
            best[words] = rows.argmax(-1).cpu().numpy()
        return best

    def digest(self) -> str:
        """By the content of the model's files, and what decides how they are used."""
        return digest_of(digests_of(_folder(self.model)), self.config.identity(), self.renamed)


@cache
def _loaded(model: str, config: Reading) -> Loaded:
    """A model in memory, loaded once in a process."""
    folder = _folder(model)
    check_folder(folder)
    return Loaded.of(folder, config, kind=KIND)


def _folder(model: str) -> Path:
    return Path(model) if Path(model).is_dir() else hub_folder(model, what="token classifier")


def _types(meanings: Iterable[tuple[Place, str]]) -> list[str]:
    return list(dict.fromkeys(kind for _, kind in meanings if kind))


def _meaning(tag: str) -> tuple[Place, str]:
    """What a tag says of a word; one without a prefix is that of a type, wherever in a span."""
    try:
        return parse_tag(tag)
    except DataError:
        return Place.INSIDE, tag

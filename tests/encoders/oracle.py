"""Reference implementation: one sentence at a time, no padding, a loop over words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Naive(NamedTuple):
    """A tokenizer and a model of transformers, called as its documentation shows."""

    tokenizer: Any
    model: Any

    @classmethod
    def of(cls, folder: Path, **options: Any) -> Naive:
        import transformers

        config = transformers.AutoConfig.from_pretrained(folder)
        kind = transformers.T5EncoderModel if config.model_type == "t5" else transformers.AutoModel
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **options)
        return cls(tokenizer, kind.from_pretrained(folder).float().eval())

    def pieces(self, words: list[str]) -> list[list[int]]:
        """Ids of each word of a sentence."""
        encoded = self.tokenizer(words, is_split_into_words=True, add_special_tokens=False)
        found: list[list[int]] = [[] for _ in words]
        for piece, word in zip(encoded["input_ids"], encoded.word_ids(), strict=True):
            found[word].append(piece)
        return found

    def vectors(
        self, words: list[str], layers: tuple[int, ...] | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Vectors of each word of one sentence, all with subwords, and of the first subword."""
        import torch

        encoded = self.tokenizer(words, is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            states = self.model(**_asked(encoded), output_hidden_states=True).hidden_states
        hidden = torch.stack([states[layer] for layer in layers or middle(states)]).mean(0)[0]
        rows = [
            hidden[[at for at, word in enumerate(encoded.word_ids()) if word == number]].mean(0)
            for number in range(len(words))
        ]
        return torch.stack(rows).numpy(), hidden[0].numpy()

    def all(
        self, sentences: list[list[str]], layers: tuple[int, ...] | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Vectors of the words and first subwords of sentences that are not empty."""
        found = [self.vectors(words, layers) for words in sentences]
        return np.concatenate([rows for rows, _ in found]), np.stack([first for _, first in found])


def middle(states: Sequence[Any]) -> list[int]:
    """Layers of the middle third; layer 1 follows the embeddings."""
    count = len(states) - 1
    chosen = [layer for layer in range(1, count + 1) if count / 3 <= layer <= 2 * count / 3]
    return chosen or [1]


def _asked(encoded: Any) -> dict[str, Any]:
    return {name: encoded[name] for name in ("input_ids", "attention_mask")}


def cosines(one: NDArray[Any], two: NDArray[Any]) -> NDArray[Any]:
    """Cosine similarity of rows."""
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1)
    return (one * two).sum(axis=1) / lengths

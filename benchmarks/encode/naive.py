"""One sentence at a time, as anybody would write it: the oracle and the yardstick."""

from __future__ import annotations

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

from convener.encoders import list_encoders


class Naive:
    """MiniLM through transformers: words of one sentence in, the mean of their pieces out."""

    def __init__(self) -> None:
        folder = list_encoders()["minilm"]
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModel.from_pretrained(folder).eval()

    def words(self, words: list[str]) -> np.ndarray:
        return self.batch([words])[0]

    def batch(self, sentences: list[list[str]]) -> list[np.ndarray]:
        cut = self.tokenizer(sentences, is_split_into_words=True, padding=True, truncation=True, return_tensors="pt")
        with torch.inference_mode():
            hidden = self.model(**cut).last_hidden_state.numpy()
        found = []
        for number, words in enumerate(sentences):
            ids = np.array([-1 if i is None else i for i in cut.word_ids(number)])
            rows = [hidden[number][ids == word].mean(axis=0) for word in range(len(words))]
            found.append(np.stack(rows))
        return found

"""Whether predictions and data speak of the same sentences."""

from __future__ import annotations

import numpy as np

from convener.data import Dataset
from convener.errors import MismatchError


def check_same_tokens(predicted: Dataset, data: Dataset) -> None:
    """Refuse predictions for other sentences, and say where they first differ."""
    if predicted.tokens is data.tokens and predicted.offsets is data.offsets:
        return
    num_common = min(len(predicted), len(data))
    different = np.flatnonzero(predicted.lengths[:num_common] != data.lengths[:num_common])
    num_equal = int(different[0]) if len(different) else num_common
    predicted_tokens, data_tokens = (
        part.tokens[: int(part.offsets[num_equal])].compact() for part in (predicted, data)
    )
    if predicted_tokens != data_tokens:
        size = min(len(predicted_tokens.data), len(data_tokens.data))
        different_bytes = np.flatnonzero(predicted_tokens.data[:size] != data_tokens.data[:size])
        tokens = (
            [int(np.searchsorted(predicted_tokens.offsets, different_bytes[0], side="right")) - 1]
            if len(different_bytes)
            else []
        )
        tokens += np.flatnonzero(predicted_tokens.lengths != data_tokens.lengths)[:1].tolist()
        token = min(tokens)
        sentence = int(np.searchsorted(data.offsets, token, side="right")) - 1
        raise MismatchError(
            f"predictions and data hold different text: sentence {sentence}, token "
            f"{token - data.offsets[sentence]} is {predicted_tokens[token]!r} in the predictions, "
            f"{data_tokens[token]!r} in the data"
        )
    if num_equal < num_common:
        raise MismatchError(
            f"sentence {num_equal} has {predicted.lengths[num_equal]} tokens in the predictions, "
            f"{data.lengths[num_equal]} in the data"
        )
    if len(predicted) != len(data):
        raise MismatchError(
            f"predictions hold {len(predicted)} sentences, the data {len(data)}; the first {num_common} are the same"
        )

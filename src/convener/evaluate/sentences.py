"""Whether predictions and data speak of the same sentences."""

from __future__ import annotations

import numpy as np

from convener.data import Dataset
from convener.errors import MismatchError


def expect_same_sentences(predicted: Dataset, data: Dataset) -> None:
    """Refuse predictions for other sentences, and say where they first differ."""
    if predicted.tokens is data.tokens and predicted.offsets is data.offsets:
        return
    common = min(len(predicted), len(data))
    unlike = np.flatnonzero(predicted.lengths[:common] != data.lengths[:common])
    until = int(unlike[0]) if len(unlike) else common
    ours, theirs = (part.tokens[: int(part.offsets[until])].compact() for part in (predicted, data))
    if ours != theirs:
        size = min(len(ours.data), len(theirs.data))
        byte = np.flatnonzero(ours.data[:size] != theirs.data[:size])
        tokens = (
            [int(np.searchsorted(ours.offsets, byte[0], side="right")) - 1] if len(byte) else []
        )
        tokens += np.flatnonzero(ours.lengths != theirs.lengths)[:1].tolist()
        token = min(tokens)
        sentence = int(np.searchsorted(data.offsets, token, side="right")) - 1
        raise MismatchError(
            f"predictions and data hold different text: sentence {sentence}, token "
            f"{token - data.offsets[sentence]} is {ours[token]!r} in the predictions, "
            f"{theirs[token]!r} in the data"
        )
    if until < common:
        raise MismatchError(
            f"sentence {until} has {predicted.lengths[until]} tokens in the predictions, "
            f"{data.lengths[until]} in the data"
        )
    if len(predicted) != len(data):
        raise MismatchError(
            f"predictions hold {len(predicted)} sentences, the data {len(data)}; "
            f"the first {common} are the same"
        )

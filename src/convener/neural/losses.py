"""Losses: cross-entropy with label distributions, and the marginal likelihood of a CRF."""

from __future__ import annotations

import torch
from torch import Tensor

from convener.neural.batch import Batch
from convener.neural.crf import log_partition


def expected_cross_entropy(scores: Tensor, label_probs: Tensor, class_weights: Tensor) -> Tensor:
    """Weighted mean over tokens and labels of -log softmax(scores).  -> ()

    scores (N, L); label l of a token has the weight label_probs (N, L) times class_weights (L,). For one-hot
    label_probs this is the usual cross-entropy; a token with zero label_probs has no influence.
    """
    target_weights = label_probs * class_weights
    total = target_weights.sum().clamp(min=1e-9)
    return -(target_weights * scores.log_softmax(1)).sum() / total


def labels_loss(scores: Tensor, transitions: Tensor, votes: Tensor, batch: Batch) -> Tensor:
    """Negative marginal log-likelihood of the votes under a CRF, mean over sentences.  -> ()

    scores (N, L), transitions as in `crf`, votes (N,) of one source. A vote allows the labels in `batch.allowed`, an
    abstention allows all: the loss is log Z minus log Z over the allowed paths.
    """
    log_allowed = torch.cat([torch.ones_like(batch.allowed[:1]), batch.allowed]).to(scores.dtype).log()
    allowed_scores = scores + log_allowed[votes.long() + 1]
    log_z = log_partition(scores, transitions, batch.offsets)
    return (log_z - log_partition(allowed_scores, transitions, batch.offsets)).mean()

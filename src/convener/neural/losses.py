"""How conditional random fields over the truth are started and trained."""

from __future__ import annotations

import torch
from torch import Tensor

from convener.neural.batch import Batch
from convener.neural.crf import log_partition


def expected_cross_entropy(scores: Tensor, label_probs: Tensor, class_weights: Tensor) -> Tensor:
    """- sum_l w_l q_l log softmax(s)_l, over the sum of all w_l q_l.  -> ()

    scores s (N, L), shares q (N, L) of each label, weights w (L,) of labels. With one label for
    sure it is the cross-entropy; a token of which nothing is known pulls nowhere.
    """
    target_weights = label_probs * class_weights
    total = target_weights.sum().clamp(min=1e-9)
    return -(target_weights * scores.log_softmax(1)).sum() / total


def labels_loss(scores: Tensor, transitions: Tensor, votes: Tensor, batch: Batch) -> Tensor:
    """Minus the mean over sentences of log p(labels | features), where votes tell the labels.

    votes (N,): any label that a vote allows will do, any label at all where there is none. So it
    is log Z of the field, less log Z of the paths that are allowed.
    """
    log_allowed = torch.cat([torch.ones_like(batch.allowed[:1]), batch.allowed]).to(scores.dtype).log()
    allowed_scores = scores + log_allowed[votes.long() + 1]
    log_z = log_partition(scores, transitions, batch.offsets)
    return (log_z - log_partition(allowed_scores, transitions, batch.offsets)).mean()

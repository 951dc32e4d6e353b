"""What taggers minimise."""

from __future__ import annotations

from torch import Tensor


def expected_cross_entropy(scores: Tensor, label_probs: Tensor, class_weights: Tensor) -> Tensor:
    """- sum_l w_l q_l log softmax(s)_l, over the sum of all w_l q_l.  -> ()

    scores s (N, L), shares q (N, L) of each label, weights w (L,) of labels. With one label for
    sure it is the cross-entropy; a token of which nothing is known pulls nowhere.
    """
    target_weights = label_probs * class_weights
    total = target_weights.sum().clamp(min=1e-9)
    return -(target_weights * scores.log_softmax(1)).sum() / total

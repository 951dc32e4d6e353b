"""How good the labels are, and what the sources do.

`evaluate` measures predictions against gold, with majority vote beside them; `analyze` looks at the
sources, with or without gold. The parts they are made of can be used alone.
"""

from convener.evaluate.bootstrap import Interval, Intervals, intervals, paired_difference
from convener.evaluate.breakdown import Breakdown, Kind, Matching, match
from convener.evaluate.calibration import (
    Calibration,
    span_calibration,
    token_calibration,
)
from convener.evaluate.evaluation import Evaluation, compare, evaluate
from convener.evaluate.metrics import (
    Mode,
    Score,
    Scores,
    score_labels,
    score_spans,
    token_accuracy,
)
from convener.evaluate.sources import Analysis, SourceSummary, analyze

__all__ = [
    "Analysis",
    "Breakdown",
    "Calibration",
    "Evaluation",
    "Interval",
    "Intervals",
    "Kind",
    "Matching",
    "Mode",
    "Score",
    "Scores",
    "SourceSummary",
    "analyze",
    "compare",
    "evaluate",
    "intervals",
    "match",
    "paired_difference",
    "score_labels",
    "score_spans",
    "span_calibration",
    "token_accuracy",
    "token_calibration",
]

"""How good the labels are, and what the sources do.

`evaluate` measures predictions against gold, with majority vote beside them; `analyze` looks at the
sources, with or without gold. The parts they are made of can be used alone.
"""

from convener.evaluation.calibration import Calibration, span_calibration, token_calibration
from convener.evaluation.error_types import ErrorType, ErrorTypeCounts, SpanMatching, match_spans
from convener.evaluation.evaluation import Evaluation, compare_predictions, evaluate
from convener.evaluation.intervals import Interval, Intervals, bootstrap_intervals, paired_difference
from convener.evaluation.metrics import Mode, Score, Scores, score_labels, score_spans, token_accuracy
from convener.evaluation.source_analysis import SourceAnalysis, SourceSummary, analyze

__all__ = [
    "Calibration",
    "ErrorType",
    "ErrorTypeCounts",
    "Evaluation",
    "Interval",
    "Intervals",
    "Mode",
    "Score",
    "Scores",
    "SourceAnalysis",
    "SourceSummary",
    "SpanMatching",
    "analyze",
    "bootstrap_intervals",
    "compare_predictions",
    "evaluate",
    "match_spans",
    "paired_difference",
    "score_labels",
    "score_spans",
    "span_calibration",
    "token_accuracy",
    "token_calibration",
]

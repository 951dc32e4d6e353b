"""Evaluation: metrics of predictions against gold, and analysis of sources with or without gold."""

from convener.evaluation.evaluation import Evaluation, compare_predictions, evaluate
from convener.evaluation.source_analysis import SourceAnalysis, analyze

__all__ = ["Evaluation", "SourceAnalysis", "analyze", "compare_predictions", "evaluate"]

"""The segment model under a neural prior over segmentations of the text."""

from convener.models.neural_segment.model import NeuralSegment, NeuralSegmentConfig

__all__ = ["NeuralSegment", "NeuralSegmentConfig"]

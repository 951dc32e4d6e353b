"""A semi-Markov model over candidate spans."""

from convener.models.segment.model import Segment, SegmentConfig

__all__ = ["Segment", "SegmentConfig"]

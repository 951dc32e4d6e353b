"""Runs on disk and benchmarks of several models."""

"""Shared by all benchmarks: data, fits, result files, timing and the command line."""

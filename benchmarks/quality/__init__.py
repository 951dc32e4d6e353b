"""How good the labels are, everywhere: `python -m benchmarks.quality`."""

"""Models on generated corpora with known truth, and on parts of real ones: `python -m benchmarks.worlds`."""

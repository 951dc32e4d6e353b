"""Speed and memory of single components, one module per benchmark: `python -m benchmarks.speed.NAME`."""

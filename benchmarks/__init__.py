"""Benchmarks: run by `make bench-...`, never imported by the library."""

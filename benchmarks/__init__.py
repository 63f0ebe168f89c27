"""Benchmarks: each runs alone (`python -m benchmarks.bench_flip544`), all with `make bench`."""

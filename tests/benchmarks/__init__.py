"""Benchmarks that work, whatever they measure."""

"""Benchmarks: programs that print a table with machine, commit, seed and data."""

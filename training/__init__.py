"""Offline work: evaluation, benchmarks, training of the router."""

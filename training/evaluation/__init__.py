"""Measures, confidence intervals, and comparisons of systems."""

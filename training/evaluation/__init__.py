"""Measures, intervals, and the systems that are compared."""

"""Fitting scorers."""

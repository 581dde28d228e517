"""Solving and tuning of thresholds."""

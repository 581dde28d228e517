"""From scores to the two thresholds."""

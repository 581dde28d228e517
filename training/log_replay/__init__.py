"""`wye tune --from-log`: a request log replayed under other thresholds, and thresholds for it."""

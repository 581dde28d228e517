"""`wye tune --from-log`: replays a request log under other thresholds, and proposes some."""

"""A request log of one's own traffic: what thresholds would make of it, and thresholds for it."""

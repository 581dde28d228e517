"""What stands between a socket and the addresses: keys, limits, problems, metrics."""

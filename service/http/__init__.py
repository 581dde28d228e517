"""What every HTTP request passes through: connections, keys, limits, problems and metrics."""

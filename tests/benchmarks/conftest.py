"""The fixtures of `tests/training`, for benchmarks that replay questions."""

from tests.training.conftest import examples, names, replay_of, replayed, town

__all__ = ["examples", "names", "replay_of", "replayed", "town"]

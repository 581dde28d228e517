"""How long work tells whoever watches where it stands."""

from typing import Protocol


class Progress(Protocol):
    """A counter with a label; the command line draws it as a bar."""

    def start(self, total: int | None, label: str) -> None:
        """Begin a stage of `total` steps, or of nobody knows how many."""
        ...

    def advance(self, steps: int) -> None:
        """Count further steps as done."""
        ...

    def close(self) -> None:
        """End the stage, finished or not."""
        ...


class Silent:
    """Progress that nobody watches."""

    def start(self, total: int | None, label: str) -> None:
        """Do nothing."""

    def advance(self, steps: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

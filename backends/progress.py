"""Progress reports of long work."""

from typing import Protocol


class Progress(Protocol):
    """A counter with a label; the command line draws it as a bar."""

    def start(self, total: int | None, label: str) -> None:
        """Begin a stage of `total` steps, or None if the number is unknown."""
        ...

    def advance(self, steps: int) -> None:
        """Count more steps as done."""
        ...

    def close(self) -> None:
        """End the stage, finished or not."""
        ...


class Silent:
    """Progress that is not shown."""

    def start(self, total: int | None, label: str) -> None:
        """Do nothing."""

    def advance(self, steps: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

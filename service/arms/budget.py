"""Daily budgets of API keys for remote arms."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from service.errors import ServiceError
from service.logs import LOG

SUFFIX = ".spent"
"""Suffix of the default file, beside the arms file."""

_PATIENCE_SECONDS = 0.5  # to wait for another process that writes
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS spent (key TEXT, day TEXT, amount REAL, PRIMARY KEY (key, day))"
)
_EXACT = 9  # decimals that sums of prices are rounded to


def today() -> date:
    """The present day, which begins at midnight UTC."""
    return datetime.now(UTC).date()


class Ledger:
    """Sums spent by key and day, in a file that processes share; for any thread.

    An amount is on the disk before it is spent, so even if a process crashes, no more is spent than
    a day's limit.
    """

    def __init__(self, path: Path, day: Callable[[], date] = today) -> None:
        self.path = path
        self._day = day

    def check(self) -> None:
        """Raise a `ServiceError` if the file cannot be written."""
        try:
            self._open().close()
        except sqlite3.Error as error:
            raise ServiceError(
                f"{self.path}, which records what API keys spend in a day, cannot be written "
                f"({error}). Name another file with WYE_SERVE__SPENT_FILE."
            ) from None

    def spent(self, key: str) -> float:
        """Amount that a key has spent today, or an `sqlite3.Error`."""
        with closing(self._open()) as database:
            return _amount(database, key, self._day())

    def take(self, key: str, amount: float, most: float) -> tuple[float, date]:
        """Record an amount as spent, or the rest of the day's limit if that is less.

        Returns:
            The amount recorded, and its day.

        Raises:
            sqlite3.Error: The file cannot be written; nothing is recorded.
        """
        with closing(self._open()) as database, database:
            database.execute("BEGIN IMMEDIATE")
            day = self._day()
            spent = _amount(database, key, day)
            taken = max(0.0, min(amount, round(most - spent, _EXACT)))
            database.execute("DELETE FROM spent WHERE day < ?", (str(day),))
            _add(database, key, day, taken)
        return taken, day

    def give_back(self, key: str, amount: float, day: date) -> None:
        """Return an amount that was taken but not spent; it is negative if more was spent.

        Raises:
            sqlite3.Error: The file cannot be written; the amount stays spent.
        """
        with closing(self._open()) as database, database:
            database.execute("BEGIN IMMEDIATE")
            _add(database, key, day, -amount)

    def _open(self) -> sqlite3.Connection:
        database = sqlite3.connect(self.path, timeout=_PATIENCE_SECONDS, isolation_level=None)
        try:
            database.execute("PRAGMA synchronous = FULL")
            database.execute(_SCHEMA)
        except sqlite3.Error:
            database.close()
            raise
        return database


def _amount(database: sqlite3.Connection, key: str, day: date) -> float:
    query = "SELECT amount FROM spent WHERE key = ? AND day = ?"
    found = database.execute(query, (key, str(day))).fetchone()
    return float(found[0]) if found else 0.0


def _add(database: sqlite3.Connection, key: str, day: date, amount: float) -> None:
    database.execute(
        "INSERT INTO spent VALUES (?, ?, ?) "
        "ON CONFLICT (key, day) DO UPDATE SET amount = amount + excluded.amount",
        (key, str(day), amount),
    )


@dataclass(slots=True)
class Held:
    """Money for the calls of one question.

    Attributes:
        amount: Most that all calls may cost.
        spent: What they did cost; equal to `amount` until it is set.
    """

    amount: float
    spent: float


@dataclass(frozen=True, slots=True)
class Budget:
    """One key's daily budget.

    If the ledger's file fails, nothing is left, and the log says why.
    """

    ledger: Ledger
    key: str
    most: float

    async def spent(self) -> float | None:
        """Amount spent today; None if the file cannot be read."""
        try:
            return await asyncio.to_thread(self.ledger.spent, self.key)
        except sqlite3.Error as error:
            self._failed(error)
            return None

    async def left(self) -> float:
        """Amount left today."""
        spent = await self.spent()
        return 0.0 if spent is None else max(0.0, round(self.most - spent, _EXACT))

    @asynccontextmanager
    async def held(self, amount: float) -> AsyncIterator[Held]:
        """Reserve an amount, or what is left, for the block; what it does not spend is returned."""
        ledger = self.ledger
        try:
            taken, day = await asyncio.to_thread(ledger.take, self.key, amount, self.most)
        except sqlite3.Error as error:
            self._failed(error)
            yield Held(0.0, 0.0)
            return
        held = Held(taken, taken)
        try:
            yield held
        finally:
            # If the calls were cut off, their cost is unknown, so the whole amount counts as spent.
            # A cost above the price is recorded too.
            if held.spent != taken:
                try:
                    await asyncio.to_thread(ledger.give_back, self.key, taken - held.spent, day)
                except sqlite3.Error as error:
                    self._failed(error)

    def _failed(self, error: sqlite3.Error) -> None:
        LOG.error(
            "spent file not usable", extra={"file": str(self.ledger.path), "error": str(error)}
        )

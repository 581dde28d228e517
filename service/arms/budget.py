"""Daily budgets of API keys for remote arms."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TypeVar

from wye.service.errors import ServiceError
from wye.service.http.edge import Key
from wye.service.logs import LOG
from wye.service.settings import ServiceSettings

T = TypeVar("T")

SUFFIX = ".spent"
"""Suffix of the default file, beside the arms file."""
_PATIENCE_SECONDS = 0.5  # to wait for another process that writes
_EXACT = 9  # decimals that sums of prices are rounded to
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS spent (key TEXT, day TEXT, amount REAL, PRIMARY KEY (key, day))"
)
_AMOUNT = "SELECT COALESCE(SUM(amount), 0.0) FROM spent WHERE key = ? AND day = ?"
_ADD = (
    "INSERT INTO spent VALUES (?, ?, ?) "
    "ON CONFLICT (key, day) DO UPDATE SET amount = amount + excluded.amount"
)


class Ledger:
    """Sums spent by key and day (UTC), in a file that processes share; for any thread.

    An amount is on the disk before it is spent, so even if a process crashes, no more is spent than
    a day's limit. Every method but `check` raises an `sqlite3.Error` if the file fails.
    """

    def __init__(self, path: Path, day: Callable[[], date] | None = None) -> None:
        self.path = path
        self._day = day or (lambda: datetime.now(UTC).date())

    def check(self) -> None:
        """Raise a `ServiceError` if the file cannot be written."""
        try:
            self.spent("")
        except sqlite3.Error as error:
            raise ServiceError(
                f"{self.path}, which records what API keys spend in a day, cannot be written "
                f"({error}). Name another file with WYE_SERVE__SPENT_FILE."
            ) from None

    def spent(self, key: str) -> float:
        """Amount that a key has spent today."""
        with self._database() as database:
            return float(database.execute(_AMOUNT, (key, str(self._day()))).fetchone()[0])

    def take(self, key: str, amount: float, limit: float) -> tuple[float, date]:
        """Record an amount, or what remains of the day's `limit`, as spent; with the day."""
        with self._database() as database:
            database.execute("BEGIN IMMEDIATE")
            day = self._day()
            (spent,) = database.execute(_AMOUNT, (key, str(day))).fetchone()
            advance = max(0.0, min(amount, round(limit - spent, _EXACT)))
            database.execute("DELETE FROM spent WHERE day < ?", (str(day),))
            database.execute(_ADD, (key, str(day), advance))
        return advance, day

    def give_back(self, key: str, amount: float, day: date) -> None:
        """Return an amount that was taken but not spent; it is negative if more was spent."""
        with self._database() as database:
            database.execute(_ADD, (key, str(day), -amount))

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        database = sqlite3.connect(self.path, timeout=_PATIENCE_SECONDS, isolation_level=None)
        with closing(database), database:
            database.execute("PRAGMA synchronous = FULL")
            database.execute(_SCHEMA)
            yield database


def open_ledger(settings: ServiceSettings, keys: Iterable[Key]) -> Ledger | None:
    """The ledger; None without arms. A `ServiceError` if a key has a limit that it cannot keep."""
    if settings.arms is None:
        return None
    ledger = Ledger(settings.serve.spent_file or settings.arms.with_suffix(SUFFIX))
    limits = (settings.serve.max_cost_per_day, *(key.max_cost_per_day for key in keys))
    if any(limit is not None for limit in limits):
        ledger.check()
    return ledger


@dataclass(frozen=True, slots=True)
class Budget:
    """One key's daily budget; if the ledger's file fails, nothing is left, and the log says why."""

    ledger: Ledger
    key: str
    limit: float

    async def remaining(self) -> float:
        """Amount that may still be spent today."""
        spent = await self._logged(lambda: self.ledger.spent(self.key))
        return 0.0 if spent is None else max(0.0, round(self.limit - spent, _EXACT))

    async def take(self, amount: float) -> tuple[float, date]:
        """Record an amount, or what remains, as spent before it is; returns that and its day.

        If the calls are cut off, their cost is unknown; then it stays spent.
        """
        advance = await self._logged(lambda: self.ledger.take(self.key, amount, self.limit))
        return advance or (0.0, date.min)

    async def settle(self, advance: tuple[float, date], spent: float) -> None:
        """Return what `take` recorded but the calls did not cost."""
        amount, day = advance
        if spent != amount:
            await self._logged(lambda: self.ledger.give_back(self.key, amount - spent, day))

    async def _logged(self, use: Callable[[], T]) -> T | None:
        """Use the file in another thread; if it fails, log that and return None."""
        try:
            return await asyncio.to_thread(use)
        except sqlite3.Error as error:
            extra = {"file": str(self.ledger.path), "error": str(error)}
            LOG.error("spent file not usable", extra=extra)
            return None

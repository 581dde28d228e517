"""What each API key may spend on remote arms in a day, and what it has spent."""

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
"""Of the file, beside the arms file, where no other is named."""

_PATIENCE_SECONDS = 0.5  # for another process that writes
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS spent (key TEXT, day TEXT, amount REAL, PRIMARY KEY (key, day))"
)
_EXACT = 9  # decimals; sums of prices are off by less


def today() -> date:
    """The day that counts, which begins at midnight UTC."""
    return datetime.now(UTC).date()


class Ledger:
    """Sums by key and day, in a file that processes share; any thread may ask.

    What is taken is on the disk before it is spent: whatever happens to a process, no more is spent
    than a day's most.
    """

    def __init__(self, path: Path, day: Callable[[], date] = today) -> None:
        """Touch nothing yet."""
        self.path = path
        self._day = day

    def check(self) -> None:
        """See that it can be written.

        Raises:
            ServiceError: It cannot.
        """
        try:
            with closing(self._open()):
                pass
        except sqlite3.Error as error:
            raise ServiceError(
                f"{self.path}, where it is written down what API keys spend in a day, cannot be "
                f"written ({error}). Name another file with WYE_SERVE__SPENT_FILE."
            ) from None

    def spent(self, key: str) -> float:
        """What a key has spent today.

        Raises:
            sqlite3.Error: The file cannot be read.
        """
        with closing(self._open()) as database:
            return _amount(database, key, self._day())

    def take(self, key: str, amount: float, most: float) -> tuple[float, date]:
        """Count as spent an amount, or what is left of a day's most; which, and for which day.

        Raises:
            sqlite3.Error: The file cannot be written; nothing is counted.
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
        """What was taken and not spent, or less than nothing where more was.

        Raises:
            sqlite3.Error: The file cannot be written; it stays spent.
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
        amount: That they may cost together.
        spent: What they did cost; all of it until somebody says otherwise.
    """

    amount: float
    spent: float


@dataclass(frozen=True, slots=True)
class Budget:
    """What one key may spend in a day.

    Where the file fails nothing is left, and the log says why.
    """

    ledger: Ledger
    key: str
    most: float

    async def spent(self) -> float | None:
        """Today, until now; None where that cannot be read."""
        try:
            return await asyncio.to_thread(self.ledger.spent, self.key)
        except sqlite3.Error as error:
            self._failed(error)
            return None

    async def left(self) -> float:
        """Of today's money."""
        spent = await self.spent()
        return 0.0 if spent is None else max(0.0, round(self.most - spent, _EXACT))

    @asynccontextmanager
    async def held(self, amount: float) -> AsyncIterator[Held]:
        """Keep an amount, or what is left, for some calls; what they do not spend goes back."""
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
            # Of who was cut off nobody knows what it spent, so that all of it counts. What cost
            # more than its price said counts as well.
            if held.spent != taken:
                try:
                    await asyncio.to_thread(ledger.give_back, self.key, taken - held.spent, day)
                except sqlite3.Error as error:
                    self._failed(error)

    def _failed(self, error: sqlite3.Error) -> None:
        LOG.error(
            "spent file not usable", extra={"file": str(self.ledger.path), "error": str(error)}
        )

"""From passages to an answer: written by the generator, or quoted where there is none."""

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from service.answers.extractive import best_sentences
from service.answers.generate import Ending, Generator, GeneratorError, Message, conversation
from service.http.metrics import Metrics
from service.schemas.retrieve import PassageValue
from service.settings import GeneratorSettings

EXTRACTIVE = "extractive"
NO_GENERATOR = (
    "No language model is configured (WYE_GENERATOR__URL), so these are the sentences of the "
    "passages that bear most on the question."
)
NOTHING_FOUND = "No passage bears on this question."
NO_WRITER = "No language model is configured (WYE_GENERATOR__URL)."
UNDONE = "This is left undone."

_CITATION = re.compile(r"\[(\d{1,3})\]")


@dataclass(frozen=True, slots=True)
class AnswerParams:
    """What to answer.

    Attributes:
        question: The user's last message.
        passages: Found for it, best first.
        collection: That they are of.
        system: What the client wants a language model to be told.
        history: Earlier turns, oldest first.
        options: Of sampling, by OpenAI's names.
        is_chore: Whether the message is none to find passages for; see `service.answers.chat`.
    """

    question: str
    passages: Sequence[PassageValue]
    collection: str = ""
    system: Sequence[str] = ()
    history: Sequence[Message] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    is_chore: bool = False


@dataclass(slots=True)
class GeneratedAnswer:
    """An answer; complete once its pieces have all come.

    Attributes:
        generator: Name of the model, or "extractive".
        note: Why it is not what one might expect, or "".
        pieces: Of its text.
        ending: Why it ended, and what it took.
        error: Why it broke off, or "".
    """

    generator: str = EXTRACTIVE
    note: str = ""
    pieces: list[str] = field(default_factory=list)
    ending: Ending = field(default_factory=Ending)
    error: str = ""

    @property
    def text(self) -> str:
        """So far."""
        return "".join(self.pieces)

    def cited(self, passages: Sequence[PassageValue]) -> list[tuple[int, PassageValue]]:
        """Numbers in square brackets that are passages, in order of first mention."""
        numbers = dict.fromkeys(int(found) for found in _CITATION.findall(self.text))
        return [(n, passages[n - 1]) for n in numbers if 1 <= n <= len(passages)]


class Writer:
    """Writes answers."""

    def __init__(self, settings: GeneratorSettings, metrics: Metrics) -> None:
        """Use the generator that the settings name, if they name one."""
        self._settings = settings
        self._metrics = metrics
        self._generator = Generator(settings, metrics) if settings.url else None

    async def close(self) -> None:
        """End all connections."""
        if self._generator is not None:
            await self._generator.close()

    async def write(self, wanted: AnswerParams, written: GeneratedAnswer) -> AsyncGenerator[str]:
        """Pieces of an answer as they come.

        A generator that fails before its first piece gives way to quotes, and `note` says so. One
        that breaks off later leaves what has come, and `error` says so.

        Args:
            wanted: What to answer.
            written: Filled in on the way.
        """
        if self._generator is None:
            written.note = NO_WRITER if wanted.is_chore else NO_GENERATOR
        else:
            written.generator = self._generator.model
            async with aclosing(self._generated(self._generator, wanted, written)) as pieces:
                async for piece in pieces:
                    yield piece
            if written.pieces:
                return
            written.generator = EXTRACTIVE
        for piece in [UNDONE] if wanted.is_chore else _quotes(wanted):
            written.pieces.append(piece)
            yield piece

    async def _generated(
        self, generator: Generator, wanted: AnswerParams, written: GeneratedAnswer
    ) -> AsyncGenerator[str]:
        messages = self._messages(wanted)
        started = perf_counter()
        took = self._metrics.generator_seconds
        try:
            async with aclosing(
                generator.answer(messages, wanted.options, written.ending)
            ) as pieces:
                async for piece in pieces:
                    if not written.pieces:
                        took.labels("first").observe(perf_counter() - started)
                    written.pieces.append(piece)
                    yield piece
            took.labels("last").observe(perf_counter() - started)
        except GeneratorError as error:
            self._metrics.degraded.labels(wanted.collection, "generator").inc()
            if error.begun:
                written.error = f"The language model broke off: {error}."
            else:
                written.note = f"degraded: the language model did not answer ({error})" + (
                    "."
                    if wanted.is_chore
                    else "; these are the sentences of the passages that bear most on the question."
                )

    def _messages(self, wanted: AnswerParams) -> list[Message]:
        """What the language model is sent; of a chore, what the client said and nothing else."""
        if wanted.is_chore:
            told = [Message("system", text) for text in wanted.system]
            return [*told, Message("user", wanted.question)]
        return conversation(
            wanted.question,
            wanted.passages,
            self._settings,
            system=wanted.system,
            history=wanted.history,
        )


def _quotes(wanted: AnswerParams) -> list[str]:
    quotes = best_sentences(
        wanted.question, [(passage.title, passage.text) for passage in wanted.passages]
    )
    pieces = [f"{quote.text} [{quote.number}]" for quote in quotes]
    return [piece if n == 0 else f" {piece}" for n, piece in enumerate(pieces)] or [NOTHING_FOUND]

"""An answer as it arrives, and the passages that its parts cite."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, Field

from wye.backends.types import Passage
from wye.router.answers import Quote
from wye.router.types import Answered
from wye.service.errors import ServiceError

EXTRACTIVE = "extractive"
_LOGGED_REASON = 500
_CITATION = re.compile(r"\[([0-9]{1,3}(?:, ?[0-9]{1,3})*)\]")


class GeneratorError(ServiceError):
    """The language model did not answer, or broke off.

    Attributes:
        reply: The endpoint's own message. It is only for the log: it may name keys and accounts.
        begun: Whether pieces of an answer had arrived before.
    """

    def __init__(self, reason: str, *, reply: object = "") -> None:
        super().__init__(reason)
        text = reply.get("message", reply) if isinstance(reply, dict) else reply
        self.reply = " ".join(str(text or "").split())[:_LOGGED_REASON]
        self.begun = False


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation; the role is system, user or assistant."""

    role: str
    content: str


class Segment(BaseModel):
    """A part of the answer, and the passages that it cites."""

    text: str = Field(description="The text, without the numbers that follow it in `answer`.")
    passages: list[int] = Field(
        default_factory=list,
        description="Numbers of the cited passages, as `index` in `citations`; may be empty.",
    )


@dataclass(slots=True)
class GeneratedAnswer:
    """An answer, complete once all its pieces have arrived.

    Attributes:
        generator: Name of the model, or "extractive".
        note: Why the answer may not be what one expects, or "".
        citable: How many passages it may cite, the first ones.
        finish_reason: As in OpenAI's protocol: stop, length, …
        usage: Counts of tokens, as the endpoint reports them.
        error: Why it broke off, or "".
        quotes: The sentences of an extractive answer.
        answered: Whether the collection has an answer; None if that is not known.
    """

    generator: str = EXTRACTIVE
    note: str = ""
    citable: int = 0
    pieces: list[str] = field(default_factory=list)
    finish_reason: str = "stop"
    usage: dict[str, int] = field(default_factory=dict)
    error: str = ""
    quotes: Sequence[Quote] = ()
    answered: Answered | None = None

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self.pieces)

    @property
    def segments(self) -> list[Segment]:
        """The text, split after each citation; numbers of no passage stay in the text."""
        segments: list[Segment] = []
        text, end = self.text, 0
        for mark in _CITATION.finditer(text):
            numbers = [int(number) for number in mark[1].split(",")]
            if not all(1 <= number <= self.citable for number in numbers):
                continue
            before = text[end : mark.start()]
            if segments and not before:
                segments[-1].passages.extend(numbers)
            else:
                segments.append(Segment(text=before, passages=numbers))
            end = mark.end()
        return [*segments, Segment(text=text[end:])] if text[end:] else segments

    def cited(self, passages: Sequence[Passage]) -> list[tuple[int, Passage]]:
        """The passages it cites, with their numbers, in order of first citation."""
        numbers = dict.fromkeys(number for part in self.segments for number in part.passages)
        return [(number, passages[number - 1]) for number in numbers]


def unnumbered(text: str) -> str:
    """A source's text with [5] as [ 5 ], so that it is not taken for one of our citations."""
    return _CITATION.sub(r"[ \1 ]", text)

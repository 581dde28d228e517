"""How questions are asked: the parameters that every way to ask a question has in common."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from wye.backends.errors import suggestion
from wye.backends.filters import Fixed
from wye.backends.text import is_blank
from wye.router.errors import QuestionError
from wye.router.types import Route


@dataclass(frozen=True, slots=True)
class Ask:
    """What is wanted for a question; questions asked alike can be answered together.

    Attributes:
        route: The route to take; with `Route.AUTO` the router chooses.
        k: Hits for each question; all passages if there are fewer.
        filter: Metadata filter as parsed JSON. It applies before the search: a passage that it
            excludes takes no part.
        explain: Whether to explain the router's decision, the graph's ranking where the graph is
            run, and which sentences gave the names of steps.
        max_latency_ms: Time budget in ms where the router chooses; no further step begins after it.
        min_relevance: Drop hits whose probability of being relevant is lower, 0 to 1.
        point: Operating point of the router, such as "fast"; "" for the thresholds in use.
        text_only: Answer by hybrid where the router chooses fusion, the graph or steps, because a
            remote arm is the graph. The reply still has the router's decision.
        canonical: The filter as text, for comparison: to `==`, 1 and true are equal.
    """

    route: Route = Route.AUTO
    k: int = 5
    filter: object | None = field(default=None, compare=False)
    explain: bool = False
    max_latency_ms: float | None = None
    min_relevance: float = 0.0
    point: str = ""
    text_only: bool = False
    canonical: str = field(init=False)

    def __post_init__(self) -> None:
        # A filter that comes with a key differs from an equal one in a request.
        kind = "fixed " if isinstance(self.filter, Fixed) else ""
        text = "" if self.filter is None else kind + json.dumps(self.filter, sort_keys=True)
        object.__setattr__(self, "canonical", text)


def check(questions: Sequence[str], k: int = 1) -> None:
    """Refuse questions that no route can answer; the gateway calls this itself.

    Raises:
        QuestionError: A question is empty or not Unicode text, or k is no whole number from 1.
    """
    if not hasattr(k, "__index__"):
        raise QuestionError(f"k is {k!r:.40}; ask for a whole number of hits.")
    if k < 1:
        raise QuestionError(f"k is {k}; ask for at least 1 hit.")
    for number, question in enumerate(questions, start=1):
        name = f"Question {number}" if len(questions) > 1 else "The question"
        if is_blank(question):
            raise QuestionError(f"{name} is empty; ask with at least one word.")
        if not question.isascii() and any("\ud800" <= letter <= "\udfff" for letter in question):
            raise QuestionError(f"{name} is not valid Unicode; send it in UTF-8.")


def route_named(name: str) -> Route:
    """The route of that name.

    Raises:
        QuestionError: There is none; names those that it may have been meant for.
    """
    try:
        return Route(name)
    except ValueError:
        meant = suggestion(str(name), Route)
    raise QuestionError(f"There is no route '{name}'.{meant} Use one of {', '.join(Route)}.")

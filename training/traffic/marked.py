"""Questions with passages that people said answer them: partial judgements, and what they miss."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from router.types import Route
from training.traffic.feedback import Said
from training.traffic.requests import Line
from training.traffic.stages import ROUTES

_Key = tuple[str, str, str]


@dataclass(slots=True)
class MarkedQuestion:
    """A question, however often it was asked.

    Attributes:
        text: As asked.
        filter: As asked, parsed JSON.
        passages: Ids that were said to answer it.
        shown: Those of them that a reply to it had shown.
        routes: That were taken for the requests with feedback.
        scores: Router -> the score it gave last.
    """

    text: str
    filter: object | None
    passages: dict[str, None] = field(default_factory=dict)
    shown: set[str] = field(default_factory=set)
    routes: list[Route] = field(default_factory=list)
    scores: dict[str, float] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The same for the same question with the same filter."""
        content = json.dumps([self.text, self.filter], sort_keys=True)
        return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class Marked:
    """What feedback there is.

    Attributes:
        questions: With marked passages, in the order of the log; each once.
        requests: With feedback of any kind.
        left_out: Why feedback marks nothing here -> requests that it is about.
    """

    questions: tuple[MarkedQuestion, ...]
    requests: int
    left_out: Mapping[str, int]

    @property
    def routes(self) -> Mapping[Route, int]:
        """Requests with marked passages, by the route that was taken for them."""
        return Counter(route for one in self.questions for route in one.routes)

    @property
    def shown(self) -> tuple[int, int]:
        """Marked passages that had been shown, and all marked passages."""
        return (
            sum(len(one.shown) for one in self.questions),
            sum(len(one.passages) for one in self.questions),
        )


class Joining:
    """Joins feedback to requests as they come by."""

    def __init__(self, feedback: Mapping[str, Said]) -> None:
        """Nothing has come by yet.

        Args:
            feedback: By request id.
        """
        self._feedback = feedback
        self._found: dict[str, dict[_Key, MarkedQuestion | None]] = {}

    def take(self, line: Line, request_id: str, *, counts: bool) -> None:
        """A request.

        Args:
            line: What was asked, and answered.
            request_id: Several questions of one request share it.
            counts: Whether the router was to choose, in the collection that is looked at.
        """
        said = self._feedback.get(request_id)
        if said is None:
            return
        key = (line.collection, line.question, json.dumps(line.filter, sort_keys=True))
        of_request = self._found.setdefault(request_id, {})
        one = of_request.get(key)
        if one is None and counts:
            one = MarkedQuestion(line.question, line.filter, dict(said.passages))
        if one is not None and counts:
            one.shown |= said.passages.keys() & set(line.shown)
            one.routes.append(ROUTES[line.route])
            if line.score is not None:
                one.scores[line.model] = line.score
        of_request[key] = one

    def done(self) -> Marked:
        """The same questions put together."""
        questions: dict[_Key, MarkedQuestion] = {}
        why: Counter[str] = Counter()
        for request_id, asked in self._found.items():
            ((key, one), *others) = asked.items()
            if not self._feedback[request_id].passages:
                why["a rating that names no passage"] += 1
            elif others:
                why["a request with several questions, so that it is unclear about which"] += 1
            elif one is None:
                why["a question that does not count here"] += 1
            else:
                _merge(questions.setdefault(key, MarkedQuestion(one.text, one.filter)), one)
        why["an unknown request"] = len(self._feedback) - len(self._found)
        left_out = {reason: count for reason, count in why.items() if count}
        return Marked(tuple(questions.values()), len(self._feedback), left_out)


def _merge(into: MarkedQuestion, one: MarkedQuestion) -> None:
    into.passages.update(one.passages)
    into.shown |= one.shown
    into.routes += one.routes
    into.scores.update(one.scores)

"""The router's types: what is wanted for a question, results, decisions and replies."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from wye.backends.types import Coverage, Query, Ranking
from wye.featurizer.plan import Plan
from wye.router.errors import PolicyError
from wye.router.routes import ARMS as ARMS  # noqa: PLC0414 - for importers, as the names below are
from wye.router.routes import FURTHER as FURTHER  # noqa: PLC0414
from wye.router.routes import USUAL as USUAL  # noqa: PLC0414
from wye.router.routes import Route as Route  # noqa: PLC0414
from wye.router.routes import route_named as route_named  # noqa: PLC0414

if TYPE_CHECKING:
    from wye.backends.trigraph.explanation import Explanation
    from wye.backends.trigraph.seeds import SeedStats

ABSTAIN_BELOW = 0.05  # below this answerability there is no answer, by default
SURE_FROM = 0.4  # from this answerability on, an answer has no remark that it may not be here
Answered = Literal["yes", "unsure", "no"]


def answered(answerability: float | None, abstain_below: float = ABSTAIN_BELOW) -> Answered | None:
    """Whether a corpus answers a question, as far as its answerability tells; None if unknown."""
    if answerability is None:
        return None
    if answerability < abstain_below:
        return "no"
    return "unsure" if answerability < SURE_FROM else "yes"


@dataclass(frozen=True, slots=True)
class Ask:
    """Parameters of a search; questions with equal ones can be answered together.

    Attributes:
        filter: Metadata filter as parsed JSON. It applies before the search: a passage that it
            excludes takes no part.
        explain: Whether to explain the router's decision, the graph's ranking where the graph is
            run, and which sentences gave the names of steps.
        step_ms: No further step of the route of steps begins after so many ms; None for no limit.
        text_only: Answer by hybrid where the router chooses fusion, the graph or steps, because a
            remote arm is the graph. The reply still has the router's decision.
        duplicates: "fold" for near-duplicates of a hit behind all others, "keep" to leave them
            where they are; "" for the setting.
    """

    route: Route = Route.AUTO  # the route to take; with `Route.AUTO` the router chooses
    k: int = 5  # hits for each question; all passages if there are fewer
    filter: object | None = None
    explain: bool = False
    step_ms: float | None = None
    min_relevance: float = 0.0  # drop hits whose probability of being relevant is lower, 0 to 1
    text_only: bool = False
    duplicates: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A name that may replace a phrase.

    Attributes:
        name: The name, as in its passage.
        confidence: From 0 to 1: its passage's score over the best passage's, less for a title.
        passage: Id of the passage that has it.
        row: Row of the sentence that has it, in this index version; -1 for a title.
        sentence: Text of that sentence; empty without `explain`.
        put_in: Whether a search was made with it instead of the phrase.
    """

    name: str
    confidence: float
    passage: str
    row: int = -1
    sentence: str = ""
    put_in: bool = False


@dataclass(frozen=True, slots=True)
class ChainStep:
    """One phrase of a question, and the names that may replace it.

    Attributes:
        phrase: The phrase, as in the question.
        asked: The text that was searched for: the phrase, with names instead of its inner phrases;
            in a comparison, the question about one of the things compared.
        level: 1 for a phrase without inner phrases.
        candidates: Names, the most confident first.
        wanted: The type that the phrase asks for, such as person; "free" for any.
    """

    phrase: str
    asked: str
    level: int
    candidates: tuple[Candidate, ...]
    wanted: str = "free"


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one question, with what is needed to see how it came about.

    Attributes:
        seconds: Wall time by stage (parsing, encoding, each arm, fusing). Questions that are
            processed together each have an equal share of the time.
        explanation: The graph arm's explanation, with `Ask.explain` and if the arm was run.
        chain: Phrases and candidates of the route of steps, innermost first; empty without steps.
        relevance: Probability of each hit that it is relevant; empty if no relevance model fits the
            index and the settings.
        answerability: Probability that the corpus has an answer; None without such a model or hit.
        duplicates: Id of a hit -> ids of its near-duplicates, which are behind the other hits.
        searched: What was searched for instead of the question: the question in a long text, with
            misspelt words as the corpus writes them; empty if it is the question itself.
    """

    question: str  # the question as it came
    route: Route  # the route that answered it; never `Route.AUTO`
    ranking: Ranking  # the answer
    arms: Mapping[str, Ranking]  # name of each arm that was run -> its ranking; fusion runs several
    seconds: Mapping[str, float]
    version: int  # version of the index
    explanation: "Explanation | None" = None
    decision: "Decision | None" = None  # the router's decision; None if the caller named the route
    chain: tuple[ChainStep, ...] = ()
    searches: int = 0  # searches made for steps, besides that for the whole question
    relevance: tuple[float, ...] = ()
    answerability: float | None = None
    duplicates: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    searched: str = ""

    @classmethod
    def unsearched(cls, question: str, route: Route, version: int, why: str) -> "Reply":
        """The reply to a question where there is nothing to search, or to search for."""
        decision = None
        if route == Route.AUTO:
            route = Route.DENSE
            decision = Decision(route, None, None, None, f"degraded: {why}")
        return cls(question, route, Ranking(route, (), 0, why), {}, {}, version, decision=decision)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The scores at which the route changes.

    Attributes:
        steps: A question with a plan goes in steps if the first passages are about a smaller share
            of what it needs than this (`evidence.share_at_hand`); 0 is never, 1 always. A surely
            simple question gets no plan (`wye.router.policy.may_take_steps`).
    """

    low: float  # τ_L; scores up to it take the simple route
    high: float  # τ_H; scores from it upwards take the graph route. 0 <= low <= high <= 1.
    steps: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high <= 1:
            raise PolicyError(
                f"The thresholds are {self.low} and {self.high}; "
                "use numbers with 0 <= low <= high <= 1."
            )
        if not 0 <= self.steps <= 1:
            raise PolicyError(f"The threshold of steps is {self.steps}; use a number from 0 to 1.")


@dataclass(frozen=True, slots=True)
class ArmResults:
    """One question with the results of the arms."""

    query: Query  # the analysed question
    seeds: "tuple[SeedStats, ...]" = ()  # where the graph's walk starts
    rankings: Mapping[Route, Ranking] = field(default_factory=dict)  # of each arm that was searched
    coverage: Coverage = field(default_factory=Coverage)  # by the text arms' first passages


@dataclass(frozen=True, slots=True)
class TimedArmResults:
    """The results of every arm and of the route of steps for one question, and their times."""

    results: ArmResults  # results of every arm
    seconds: Mapping[str, float]  # processor time by stage
    steps: Ranking | None = None  # ranking by the route of steps; None if it is fusion's
    planned: bool = False  # whether the question has a plan
    open: bool = False  # whether its plan is open (`wye.featurizer.plan.Plan`)
    rows: bool = False  # whether a row of a table is among the text arms' first passages


SCORE = "score"  # the reason for a route that the score alone gives
BASELINE = "(average question)"  # name of the contribution that every question starts from


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one feature adds to the logit.

    Attributes:
        name: The feature's name. The first is `(average question)`: a question whose features are
            all at their training mean.
        logit: A value above 0 favours the graph. All of them add up to the score's logit.
        value: The feature's value, as extracted; None for the average question.
    """

    name: str
    logit: float
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """Which route a question takes, and why.

    Attributes:
        thresholds: Thresholds that the score was compared with; None if nothing was scored.
        contributions: The baseline, then features by descending weight; they add up to the logit.
            Empty without `Ask.explain`.
        trees: Constituency trees in brackets, one for each sentence of the question, as the
            features use them; empty without `explain`.
        simple: The route of scores up to the low threshold; None if nothing was scored.
        plan: Its phrases, to be resolved step by step; empty without `explain`.
        planned: Whether the question goes in steps if it has a plan; see `Thresholds.steps`.
    """

    route: Route  # the route
    score: float | None  # s, from 0 to 1; None if nothing was scored
    logit: float | None  # calibrated logit, s = 1 / (1 + exp(-logit)); None if nothing was scored
    thresholds: Thresholds | None
    reason: str  # "score", "plan: …", "forced", "unfamiliar: …" or "degraded: …"
    model: str = ""  # name and version of the router, "name/v1"; "" if nothing was scored
    contributions: tuple[Contribution, ...] = ()
    trees: tuple[str, ...] = ()
    simple: Route | None = None
    summary: str = ""  # the reason in a sentence or two; empty without `explain`
    plan: Plan = field(default_factory=Plan)
    planned: bool = False

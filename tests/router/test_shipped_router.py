"""The router that ships, asked questions over the demo corpus that routers by keywords misjudge.

The kinds are those that cognee collected when it found its own rules misled by a word (pull request
4889 of topoteretes/cognee): a "when" that asks for one date, a "why", a "plan", a "relationship"
between things that one passage is about. Words like these make no question complex.
"""

from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

import pytest

from benchmarks.harness import DEMO
from wye.backends.sources import DocumentSource
from wye.router.session import Session
from wye.router.settings import load_settings
from wye.router.types import Ask, Reply, Route

STEPS = Route.STEPS

# Questions, and the passages that hold what they ask for.
ORDINARY = [
    ("When was Stanford University founded?", {"stanford-university"}),
    ("Why did the Tay Bridge fall?", {"tay-bridge-disaster"}),
    ("Building plan for the track on Semmering", {"semmering-railway"}),
    ("What is the relationship between iron and vanadium?", {"vanadium"}),
    ("Who won the Turing Award in 1972?", {"edsger-dijkstra"}),
    ("What did Jan Oort show?", {"jan-oort"}),
    ("List all programming languages for teaching", {"pascal", "basic", "python-language"}),
    ("What class of engine is Mallard?", {"mallard"}),
    ("How do I turn a locomotive without a turntable?", {"wye-junction"}),
    ("What happened after the fire at La Fenice?", {"la-fenice"}),
    ("Since when has the National Railway Museum owned Flying Scotsman?", {"flying-scotsman"}),
    ("list the telescopes dedicated since 1980", {"very-large-array", "green-bank"}),
    ("Why was the Nobel Prize of Antony Hewish criticised?", {"antony-hewish"}),
    ("Explain how aperture synthesis works", {"martin-ryle"}),
    ("How is Frank Drake connected with Arecibo?", {"frank-drake", "arecibo-observatory"}),
    ("Which elements are linked with Ytterby?", {"ytterby"}),
    ("What are good habits for structured programs?", {"pascal"}),
    ("Who checked the sums for the Golden Gate Bridge?", {"golden-gate-bridge"}),
]

# README's examples and others like them: something is named, something else is asked for. The
# passage that the question begins with, then those that it leads to.
BRIDGES = {
    "Which captain had once claimed the island where the James Caird came ashore?": (
        STEPS,
        ["james-caird", "south-georgia"],
    ),
    "Which phrase was coined by the designer of Lisp?": (STEPS, ["lisp", "john-mccarthy"]),
    "Which king founded the university in the birthplace of the chemist for whom Peter Desaga "
    "made a burner?": (STEPS, ["robert-bunsen", "gottingen"]),
    "Which town did the engineer of the Tōkaidō Shinkansen come from?": (
        STEPS,
        ["tokaido-shinkansen", "hideo-shima"],
    ),
    "Which river runs past the town where Robert Bunsen was born?": (
        STEPS,
        ["robert-bunsen", "gottingen"],
    ),
    "Which university did the planner of the Sydney Harbour Bridge attend?": (
        Route.FUSION,  # its words have no plan, and much of what it needs is at hand
        ["sydney-harbour-bridge", "john-bradfield"],
    ),
    "Which peak did the climber of the Matterhorn ascend in Ecuador?": (
        STEPS,
        ["matterhorn", "edward-whymper", "chimborazo"],
    ),
    "In which museum is the ship in which Nansen froze in off Siberia?": (STEPS, ["fram"]),
    "Where was the designer of Pascal born?": (STEPS, ["pascal"]),
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder: Path = tmp_path_factory.mktemp("demo") / "index"
    with Session.create(load_settings(), folder) as session:
        session.ingest(DocumentSource(DEMO).passages())
    with Session.open(load_settings(), folder) as session:
        yield session


def ask(session: Session, question: str, route: Route = Route.AUTO) -> tuple[Reply, list[str]]:
    # Alone: the batch changes nothing but who waits for whom.
    (reply,) = session.gateway.search([question], Ask(route, 5))
    return reply, [hit.id for hit in reply.ranking.hits]


def test_questions_that_nest_others_have_higher_scores(demo: Session) -> None:
    def scores(questions: Iterable[str]) -> list[float]:
        decisions = (ask(demo, question)[0].decision for question in questions)
        return [decision.score for decision in decisions if decision and decision.score is not None]

    ordinary, nested = scores(text for text, _ in ORDINARY), scores(BRIDGES)
    higher = [above > below for above, below in product(nested, ordinary)]
    assert len(higher) == 18 * 9
    assert sum(higher) > 0.8 * len(higher)


def test_what_an_ordinary_question_asks_for_comes_first(demo: Session) -> None:
    first = {text: ask(demo, text)[1][0] for text, _ in ORDINARY}
    assert {text: first[text] for text, right in ORDINARY if first[text] not in right} == {}


@pytest.mark.parametrize(("question", "tier", "right"), [(q, *rest) for q, rest in BRIDGES.items()])
def test_a_bridge_is_crossed(demo: Session, question: str, tier: Route, right: list[str]) -> None:
    reply, found = ask(demo, question)
    assert (reply.route, found[: len(right)]) == (tier, right)

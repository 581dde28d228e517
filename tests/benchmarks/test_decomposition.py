"""Plans by a language model, over an endpoint of this machine."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from benchmarks.decomposition import LlmPlanner, planned
from benchmarks.harness import BenchmarkError
from featurizer.plan import LEVELS, STEPS, Plan, walk
from router.reading import QuestionReading
from tests.router.fakes import FakeAnalyser

NESTED = "Who leads the country where the composer of Finlandia was born?"
INNER = "the composer of Finlandia"
OUTER = f"the country where {INNER} was born"
ANSWER = json.dumps(
    [{"phrase": INNER, "type": "person"}, {"phrase": OUTER, "type": "somewhere"}, {"phrase": 3}]
)


class Endpoint(ThreadingHTTPServer):
    """Answers as it is told to, and keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.status = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(body["messages"][-1]["content"])
        said = f"Here they are:\n```json\n{ANSWER}\n```"
        content = json.dumps({"choices": [{"message": {"role": "assistant", "content": said}}]})
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its own word
        pass


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def _told(plan: Plan) -> list[tuple[str, str, int]]:
    return [(NESTED[slice(*s.span)], s.wanted, s.level) for s in walk(plan.steps)]


def test_an_endpoint_plans_each_question_once(endpoint: Endpoint) -> None:
    planner = LlmPlanner(endpoint.url, "some-model")
    reading = QuestionReading([NESTED, NESTED], FakeAnalyser)
    one, other = planner(reading, [0, 1])
    assert one == other
    assert _told(one) == [(OUTER, "free", 2), (INNER, "person", 1)]
    assert endpoint.asked == [NESTED]


def test_an_endpoint_that_refuses_is_named(endpoint: Endpoint) -> None:
    endpoint.status = 400
    with pytest.raises(BenchmarkError, match=r"127\.0\.0\.1.*gives no plans"):
        LlmPlanner(endpoint.url, "some-model").plan(NESTED)


@pytest.mark.parametrize(
    "answer",
    ["", "none", "[", "[1, null]", '{"phrase": "the composer of Finlandia"}', '[{"type": "free"}]']
    + [json.dumps([{"phrase": phrase}]) for phrase in ("", "the mayor of Oslo", NESTED)],
)
def test_what_is_no_phrase_of_the_question_is_no_step(answer: str) -> None:
    assert planned(NESTED, answer) == Plan()


def test_plans_are_bounded_and_do_not_cross() -> None:
    words = "a b c d e f g h i j k l m n"
    parts = [words[:end] for end in range(3, len(words), 2)]
    deep = planned(words, json.dumps([{"phrase": part} for part in parts]))
    assert len(deep.levels()) == LEVELS
    wide = planned(words, json.dumps([{"phrase": word} for word in words.split()]))
    assert len([*walk(wide.steps)]) == STEPS
    crossed = planned(words, json.dumps([{"phrase": "a b c"}, {"phrase": "c d e f"}]))
    assert [words[slice(*step.span)] for step in crossed.steps] == ["a b c"]

"""Sessions over the demo corpus, which the tests of this folder search and write to."""

import json
from pathlib import Path

from wye.backends.dataset.words import WordTable
from wye.backends.store.index import PassageStore
from wye.backends.types import Passage
from wye.router.session import Session
from wye.router.settings import load_settings
from wye.router.types import Ask, Reply, Route

DEMO = Path(__file__).parents[3] / "service" / "demo"
NEW = Passage("zeppelin", "Zeppelin Nordstern", "Zeppelin Nordstern met the Brooklyn Bridge.")
FUSED = (Route.HYBRID, Route.FUSION, Route.STEPS)


def lines(name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (DEMO / name).read_text("utf-8").splitlines()]


QUESTIONS = [str(line["text"]) for line in lines("queries.jsonl")][:40]


def opened(folder: Path, engine: str = "dataset") -> Session:
    return Session.open(load_settings(engine=engine), folder)


def reply_to(session: Session, question: str, route: Route, **ask: object) -> Reply:
    (reply,) = session.gateway.search([question], Ask(route, 5, **ask))  # type: ignore[arg-type]
    return reply


def ids(session: Session, question: str, route: Route, **ask: object) -> list[str]:
    return reply_to(session, question, route, **ask).ranking.ids()


def all_ids(folder: Path) -> list[str]:
    return [*PassageStore.open(folder).snapshot().to_table(["id"])["id"].to_pylist()]


def counts(folder: Path) -> dict[str, int]:
    """Number of passages of each term and label, and the numbers of all passages and terms."""
    table = WordTable.of(PassageStore.open(folder))
    about = table.about
    rows = table._dataset.to_table(["kind", "word"]).to_pylist()
    words = [json.loads(row["word"]) for row in rows if row["kind"] in ("term", "label")]
    known = {text: passages for text, passages, *_ in words if passages}
    return {**known, "all passages": about.passages, "all terms": about.terms}

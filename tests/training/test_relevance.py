"""Fitting relevance: questions with and without an answer, and what is made of their evidence."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import wye
from benchmarks.harness import DEMO
from tests.training.made import write_dataset
from wye.router.match import FIRST
from wye.router.relevance import ANSWER_EVIDENCE, FEW, PASSAGE_EVIDENCE
from wye.router.relevance_files import RELEVANCE, load_relevance
from wye.router.settings import load_settings
from wye.router.types import Route
from wye.service.cli import run
from wye.training.data import QuestionSource
from wye.training.errors import DatasetError
from wye.training.relevance import (
    KINDS,
    PASSAGES_UNANSWERED,
    UNANSWERED,
    fit_for_user,
    fit_model,
    of_answers,
    of_passages,
    quality,
)
from wye.training.relevance_questions import (
    ROUTES,
    Example,
    Questions,
    gather,
    near_misses,
    pattern_of,
)

TOWNS = ("Mostar", "Jajce", "Travnik", "Livno", "Konjic", "Bihac", "Tuzla", "Zenica")
RIVERS = ("Volga", "Danube", "Ebro", "Tagus", "Loire", "Rhone", "Seine", "Oder")


def dataset(folder: Path, name: str, places: tuple[str, ...], thing: str) -> QuestionSource:
    """A folder of documents and questions with its index."""
    texts = {place: f"{place} has a {thing} that {place} is known for." for place in places}
    folder = write_dataset(
        folder / name,
        [(place, place, text) for place, text in texts.items()],
        [(f"q-{place}", f"Which {thing} is {place} known for?") for place in places],
        {
            split: [f"q-{place}\t{place}\t1" for place in own]
            for split, own in (("train", places[:6]), ("dev", places[6:]))
        },
    )
    with wye.create(folder / "index") as index:
        index.add(wye.Document(place, place, text) for place, text in texts.items())
    return QuestionSource(folder, folder / "index")


def made(seed: int = 0) -> list[Example]:
    """Examples whose evidence tells what has an answer, of three families."""
    rng = np.random.default_rng(seed)
    found = []
    for route in (*ROUTES, FEW):
        for family in ("one", "other", "third"):
            for number in range(80):
                kind = KINDS[number % 4]
                relevant = (rng.uniform(size=FIRST) < 0.3).astype(float) * (kind == "own")
                passages = rng.normal(size=(FIRST, len(PASSAGE_EVIDENCE))) + 2 * relevant[:, None]
                answer = rng.normal(size=len(ANSWER_EVIDENCE)) + 2 * (kind == "own")
                found.append(Example(route, family, kind, passages, relevant, answer))
    return found


def test_more_evidence_is_more_likely_and_families_that_were_left_out_are_told_apart() -> None:
    model = fit_model(made(), 100, "made")
    width = len(PASSAGE_EVIDENCE)
    low, high = model.passages[Route.DENSE](np.array([[-1.0] * width, [3.0] * width]))
    assert low < 0.1
    assert high > 0.6
    answers = of_answers([one for one in made() if one.route == Route.FUSION])
    chances = answers.crossfit()
    assert chances[answers.outcomes == 1].mean() > 0.8
    assert chances[answers.outcomes == 0].mean() < 0.2


def test_every_family_counts_the_same() -> None:
    examples = [one for one in made() if one.route == Route.DENSE]
    found = of_passages([*examples, *(one for one in examples if one.family == "one")])
    for family in ("one", "other", "third"):
        weights = [
            found.weights[(found.families == family) & (found.kinds == kind)].sum()
            for kind in KINDS
        ]
        without = [UNANSWERED[kind] * PASSAGES_UNANSWERED for kind in KINDS[1:]]
        assert weights == pytest.approx([1.0, *without])


def test_how_many_questions_of_others_were_asked_changes_no_figure() -> None:
    few = [one for one in made() if one.route == Route.FUSION and one.family == "one"]
    many = [*few, *(one for one in few for _ in range(4) if one.kind == "foreign")]
    told = []
    for found in (of_answers(few), of_answers(many)):
        chances = 1 / (1 + np.exp(-found.evidence.sum(axis=1)))
        told.append(quality(found, chances, np.ones(len(chances), bool)))
    assert told[0] == told[1]
    assert float(told[0][1]) > 0.05


def test_near_misses_ask_of_a_name_what_no_passage_says_of_it() -> None:
    passages = [
        ("Ada Holm", "Ada Holm is a welder. Her locker has number 12."),
        ("Bo Lind", "Bo Lind paints hulls."),
        ("Cy Marsh", "Cy Marsh has a locker by the stairs."),
    ]
    locker = pattern_of("Where is the locker of Ada Holm?", passages[:1])
    hulls = pattern_of("Does Bo Lind paint hulls?", passages[1:2])
    assert locker is not None
    assert hulls is not None
    assert (locker.name, {*locker.attributes}) == ("Ada Holm", {"locker"})
    assert pattern_of("where is it", passages) is None
    expected = ["Where is the locker of Bo Lind?", "Does Ada Holm paint hulls?"]
    assert near_misses([locker, hulls], [], passages) == expected
    assert near_misses([hulls], [locker], passages) == ["Where is the locker of Bo Lind?"]
    # Cy Marsh has a locker.
    assert near_misses([locker], [], passages[::2]) == []


def test_questions_without_an_answer_may_stand_beside_the_dataset(tmp_path: Path) -> None:
    folder, index = (towns := dataset(tmp_path, "towns", TOWNS, "castle")).dataset, towns.index
    lines = [{"text": f"Who is the mayor of {town}?", "split": "train"} for town in TOWNS[:2]]
    lines.append({"text": "Who is the mayor of Tuzla?", "split": "test"})
    (folder / "near_misses.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in lines))
    assert len(Questions(folder, index, ("train",)).near) == 2
    (folder / "other_subjects.jsonl").write_text('{"split": "train"}')
    with pytest.raises(DatasetError, match=r"other_subjects.jsonl:1 needs"):
        Questions(folder, index, ("train",))
    (folder / "other_subjects.jsonl").unlink()
    question = {"_id": "q-Mostar", "text": "Mostar?", "metadata": {"row": {"Mostar": ["castle"]}}}
    (folder / "queries.jsonl").write_text(json.dumps(question))
    (folder / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq-Mostar\tMostar\t1\n")
    source = Questions(folder, None, ("train",))
    assert source.is_relevant("q-Mostar", "Mostar", "Its Castle.")
    assert not source.is_relevant("q-Mostar", "Mostar", "Its bridge.")
    assert not source.is_relevant("q-Mostar", "Jajce", "Its castle.")


@pytest.mark.usefixtures("fake_models")
def test_questions_are_asked_with_and_without_their_passages_and_elsewhere(tmp_path: Path) -> None:
    towns = dataset(tmp_path, "towns", TOWNS, "castle")
    sources = [towns, dataset(tmp_path, "rivers", RIVERS, "bridge")]
    data = [Questions(one.dataset, one.index, ("train", "dev")) for one in sources]
    found = gather(load_settings(), data)
    lexical = [one for one in found if one.route == Route.LEXICAL]
    counts = Counter((one.family, one.kind) for one in lexical)
    kinds = [(town, own) for town in ("towns", "rivers") for own in ("own", "removed", "foreign")]
    assert counts == dict.fromkeys(kinds, 8)
    for one in lexical:
        assert one.relevant.sum() == (one.kind == "own")
        assert (one.answer[ANSWER_EVIDENCE.index("joint")] == 1) == (one.kind == "own")


@pytest.mark.usefixtures("fake_models")
def test_the_same_examples_give_the_same_model_to_the_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = dataset(tmp_path, "towns", TOWNS, "castle")
    monkeypatch.setattr("wye.training.relevance.gather", lambda *_: made())
    out = tmp_path / "model"
    written = []
    for _ in range(2):
        fit_for_user(load_settings(), [source], out)
        written.append([(out / name).read_bytes() for name in (RELEVANCE, "CARD.md")])
    assert written[0] == written[1]
    assert set(load_relevance(out).answers) == {*ROUTES, FEW}
    assert "| fusion | third |" in written[0][1].decode()
    assert "the indexes of other families" in written[0][1].decode()


@pytest.mark.usefixtures("fake_models")
def test_wye_train_fits_it_for_the_questions_of_one_corpus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    index, models = str(tmp_path / "index"), str(tmp_path / "models")
    assert run(["index", str(DEMO), "--index", index]) == 0
    command = ["train", "--relevance", "--questions", str(DEMO), "--index", index]
    assert run([*command, "--models", models, "--name", "mine"]) == 0
    folder = Path(models) / "relevance-mine"
    assert f"Use it with WYE_RELEVANCE__MODEL={folder}\n" in capsys.readouterr().out
    card = (folder / "CARD.md").read_text(encoding="utf-8")
    assert "Fitted on questions of demo." in card
    assert "No questions of other corpora were asked, so" in card
    assert "the indexes of other families" not in card

    def relevance() -> list[float | None]:
        with wye.open(index) as opened:
            return [hit.relevance for hit in opened.search("Which bridge?", k=3, route="lexical")]

    # What ships was fitted with other models.
    assert relevance() == [None] * 3
    monkeypatch.setenv("WYE_RELEVANCE__MODEL", str(folder))
    assert all(chance is not None and 0 < chance < 1 for chance in relevance())
    search = ["search", "Which bridge?", "--index", index, "--route", "lexical"]
    for name, value, says in (
        ("WYE_FUSION__DEPTH", "50", "was fitted for other models, or other settings of the arms"),
        ("WYE_RELEVANCE__MODEL", "nope", "There is no relevance model 'nope'"),
    ):
        monkeypatch.setenv(name, value)
        assert run(search) == 2
        assert says in capsys.readouterr().err

"""Counts of a whole index, of which memory holds parts, against all of them at once."""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Literal

import lance
import pytest

from tests.hashing import HashAnalyser
from wye.backends.dataset.build import make_searchable
from wye.backends.dataset.columns import Row, spelling
from wye.backends.dataset.counts import Counts, SpilledCounts
from wye.backends.dataset.words import NAME, About, WordTable, _summed, _table, write
from wye.backends.lexical import LexicalSettings
from wye.backends.store.index import PassageStore
from wye.backends.store.ingest import ingest
from wye.backends.store.schema import GRAPH
from wye.backends.trigraph.settings import AssemblySettings
from wye.backends.types import Passage

NAMES = ["Ada Byron", "ada byron", "Émile", "emile", "Bo", "the bo", "O'Hara", "o hara", "Zoë-Ann"]
LABELS = ['["year",1963]', '["year","1963"]', '["tag","a:b"]', '["tag",null]']


def some_counts(random: Random) -> Counts:
    def few(words: list[str]) -> Counter[str]:
        return Counter(random.choices(words, k=random.randrange(6)))

    names = few(NAMES)
    return Counts(
        passages=random.randrange(9),
        terms=random.randrange(99),
        names=names,
        titles=Counter(name for name in names if random.random() < 0.5),
        proper=Counter(name for name in names if random.random() < 0.5),
        shown=Counter({(name, shown): 2 for name in few(NAMES) for shown in few(NAMES)}),
        tokens=few(["a", "bridge", "été", "1963", *NAMES]),
        labels=few(LABELS),
        phrases=few(NAMES),
        tagged=random.randrange(9),
        untagged=random.randrange(9),
    )


@pytest.mark.parametrize("seed", range(5))
def test_counts_on_the_disk_are_the_sum_of_all(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    several = [some_counts(random) for _ in range(random.randrange(12))]
    spilled, total = SpilledCounts(tmp_path / "parts"), Counts.sum(several)
    for counts in several:
        spilled.add(counts)
    for field in ("passages", "terms", "tagged", "untagged"):
        assert getattr(spilled.total, field) == getattr(total, field)
    parts = [*spilled]
    for field in ("names", "titles", "shown", "tokens", "labels", "phrases"):
        sums = [getattr(part, field) for part in parts]
        assert sum(map(len, sums)) == len(getattr(total, field))  # no two parts have the same
        assert sum(sums, Counter()) == getattr(total, field)
    about = About(total.passages, total.terms, False, "", {}, {})
    uri = str(tmp_path / "words.lance")
    write(uri, about, (part.words() for part in parts))
    assert lance.dataset(uri).to_table() == _table(_summed(total.words()), about)


@pytest.mark.parametrize("phrases", ["off", "on"])
def test_rows_of_all_fragments_have_the_counts_of_the_whole_index(
    tmp_path: Path, phrases: Literal["on", "off"]
) -> None:
    random, analyser = Random(0), HashAnalyser()
    people = ["Ada Byron", "Bo Diddley", "Cy Twombly", "Dee Dee", "Émile Zola"]
    index = PassageStore.create(tmp_path / "index", analyser.dimension, analyser.fingerprint)
    for part in range(3):
        ingest(
            index,
            [
                Passage(f"{part}-{n}", random.choice(people), f"{a} met {b}. {b} left early.", {})
                for n in range(7)
                for a, b in [random.sample([*people, f"Person {n} Only"], 2)]
            ],
            analyser,
        )
        index = index.newest()
    assert len(index.snapshot().get_fragments()) == 3
    make_searchable(index, LexicalSettings(), AssemblySettings(noun_phrases=phrases))
    index = index.newest()
    stored = index.snapshot().to_table()
    rows = [Row(n, packed, index.dimension) for n, packed in enumerate(stored[GRAPH].to_pylist())]
    passages = Counter(name.key for row in rows for name in row.names)
    titles = Counter(row.name(position).key for row in rows for position in row.titles)
    words = WordTable.of(index).find((NAME, spelling(key)) for key in passages)
    assert len(passages) > len(people)
    for row, vector, sentences in zip(
        rows, stored["vector"].to_pylist(), stored["sentences"].to_pylist(), strict=True
    ):
        assert row.vector.tolist() == vector
        assert row.sentences.tolist() == [sentence["vector"] for sentence in sentences]
        for name in row.names:
            word = words[NAME, spelling(name.key)]
            assert (name.passages, name.titles) == (passages[name.key], titles[name.key])
            assert (word.passages, word.titles) == (passages[name.key], titles[name.key])
    assert [row.id for row in rows] == stored["id"].to_pylist()

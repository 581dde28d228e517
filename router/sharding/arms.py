"""The arms of an index divided into shards: each question goes to all, and their lists are merged.

Dense and lexical rankings equal those of one index: inner products do not depend on other passages,
and the counts that BM25 needs are summed. The graph works in rounds. A question's names are the
longest that any shard knows. Bridging takes the nearest sentence of any shard. Restart masses use
the counts of all shards, and during the walk entities' masses are exchanged by key. A name that
only other shards have is linked when bridging reaches it, but takes no part in later steps.

A shard that fails or is late is left out until `revive` reaches it again; `missing` says why.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from secrets import token_hex
from typing import Any, Protocol, cast

import numpy as np

from backends.coverage import NameCoverage, WordCoverage, bits
from backends.filters import parse_filter
from backends.lexical import NO_TERM, LexicalSettings, content_terms, terms
from backends.trigraph.explanation import (
    BridgeNote,
    EntityNote,
    Explanation,
    PassageNote,
    SeedNote,
)
from backends.trigraph.linking import says_enough
from backends.trigraph.retriever import NO_SEED, TriGraphSettings
from backends.trigraph.seeds import SeedStats, confidence
from backends.types import Float32, Mask, Passage, Query, RankedHit, Ranking, Scores
from backends.words import entity_key, stretch, tokenise
from router.batch import FurtherArm
from router.errors import ShardError
from router.settings import Settings
from router.types import Route

ROUNDS = 2
"""Steps of a walk. The next would move d⁴ as much mass, a sixteenth, and is left out."""
EXCHANGED = 64
"""Entities that each shard reports after a step: those with the most mass."""
FOREIGN = "was written by other models than those of here"
"""Why a shard is not asked."""
LOST = "(its shard is lost)"
"""Placeholder for a text."""
COMPARED = 8
"""Sentences that each shard reports for an entity, so that used ones can be skipped."""


class ShardClient(Protocol):
    """A connection to a shard."""

    @property
    def name(self) -> str:
        """Name to show to people."""
        ...

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """The answer to one of `shard.CALLS`.

        Raises:
            ShardError: There is no answer in time; the message says why.
        """
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


@dataclass(frozen=True, slots=True)
class _Allowed:
    """Takes the place of a mask: which passages are allowed."""

    filter: object | None
    ids: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Seed:
    """A seed with the key of its entity; see `seeds.Seed`."""

    key: str
    value: float
    mention: str
    origin: str


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence of a shard; `starts` are positions of words that begin like a name."""

    near: float
    shard: str
    row: int
    mentions: list[str]
    words: list[str]
    starts: list[int]


@dataclass(slots=True)
class _Active:
    """Active entities by key; see `bridging.Activation`."""

    value: dict[str, float]
    weight: dict[str, float] = field(default_factory=dict)
    level: dict[str, int] = field(default_factory=dict)
    bridges: dict[str, tuple[_Sentence, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.weight, self.level = dict(self.value), dict.fromkeys(self.value, 1)


@dataclass(frozen=True, slots=True)
class _Walk:
    """A completed walk, which the shards keep under its name.

    Attributes:
        total: Restart mass of the passages and entities of all shards.
    """

    name: str
    seeds: list[_Seed]
    active: _Active
    total: float


class Shards:
    """All shards of an index, asked in parallel.

    Attributes:
        about: Name of a shard -> its answer to "about".
        missing: Name of a shard that is left out -> why.
    """

    def __init__(
        self, clients: Sequence[ShardClient], pins: Mapping[str, str] | None = None
    ) -> None:
        """Ask each shard about itself.

        Args:
            clients: The shards.
            pins: Models that each must have been written with; None to skip the check.

        Raises:
            ShardError: No shard answers.
        """
        self._clients, self._pins = clients, pins
        self._pool = ThreadPoolExecutor(len(clients), thread_name_prefix="wye-shard")
        self.missing: dict[str, str] = {}
        self.about: dict[str, dict[str, Any]] = {}
        self._lost: dict[str, str] = {}
        self.revive()

    def revive(self) -> bool:
        """Ask each shard about itself again.

        Returns:
            Whether anything has changed.

        Raises:
            ShardError: No shard answers.
        """
        before = self.about, self.missing
        about, missing = self._answers(self._clients, "about", {}, {})
        own = {name for name, one in about.items() if self._pins in (None, one.get("pins"))}
        self.missing = missing | dict.fromkeys(about.keys() - own, FOREIGN)
        self.about = {name: one for name, one in about.items() if name in own}
        self._require(self.about)
        return before != (self.about, self.missing)

    def ask(
        self,
        name: str,
        own: Mapping[str, Mapping[str, Any]] | None = None,
        **arguments: Any,  # noqa: ANN401
    ) -> dict[str, Any]:
        """Ask all shards that are not missing.

        Args:
            name: Name of the call.
            own: Name of a shard -> further arguments for it alone.
            arguments: Arguments for all.

        Returns:
            Name of a shard -> its answer.

        Raises:
            ShardError: No shard answers.
        """
        missing = self.missing
        asked = [client for client in self._clients if client.name not in missing]
        answers, failed = self._answers(asked, name, arguments, own or {})
        if failed:
            self.missing = {**missing, **failed}
        self._lost.update(self.missing)
        self._require(answers)
        return answers

    def lost(self) -> dict[str, str]:
        """Shards that were left out since the last call -> why."""
        found, self._lost = self._lost, {}
        return found

    def _answers(
        self,
        clients: Sequence[ShardClient],
        name: str,
        arguments: Mapping[str, Any],
        own: Mapping[str, Mapping[str, Any]],
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Answers by name of shard, and by name of shard why there is none."""

        def ask(client: ShardClient) -> Any:  # noqa: ANN401
            try:
                return client.call(name, {**arguments, **own.get(client.name, {})})
            except ShardError as error:
                return error

        names = [client.name for client in clients]
        found = dict(zip(names, self._pool.map(ask, clients), strict=True))
        failed = {name: str(one) for name, one in found.items() if isinstance(one, ShardError)}
        return {name: one for name, one in found.items() if name not in failed}, failed

    def _require(self, answers: Mapping[str, Any]) -> None:
        if not answers:
            why = "; ".join(f"{name} {reason}" for name, reason in self.missing.items())
            raise ShardError(f"No shard answers: {why}.")

    def total(self, what: str) -> int:
        """Sum of "passages", "terms" or "version" over the shards that are not missing."""
        return sum(own[what] for name, own in self.about.items() if name not in self.missing)

    @property
    def has_phrases(self) -> bool:
        """Whether noun phrases are entities on any shard."""
        return any(own["phrases"] for own in self.about.values())

    def close(self) -> None:
        """Close the connections to all shards."""
        self._pool.shutdown(cancel_futures=True)
        for client in self._clients:
            client.close()


class ShardedArms:
    """`router.batch.Arms` over shards.

    Attributes:
        version: Sum of the shards' versions, so it grows with each of them.
    """

    def __init__(self, shards: Shards, settings: Settings) -> None:
        self.shards = shards
        self.version = shards.total("version")
        self.dense = ShardedDense(shards)
        self.lexical = ShardedLexical(shards, settings.lexical)
        self.graph = ShardedGraph(shards, settings.graph, self.lexical)

    def __len__(self) -> int:
        """How many passages there are."""
        return self.shards.total("passages")

    @cached_property
    def passages(self) -> "ShardedPassages":
        """Access to the names and sentences of passages, for steps."""
        return ShardedPassages(self.shards)

    def fetch(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Id -> passage."""
        found = self.shards.ask("passages", ids=list(ids)).values()
        return {one["id"]: Passage(**one) for answer in found for one in answer}

    def texts(self, ids: Sequence[str]) -> list[tuple[str, str]]:
        """Title and text of passages, in the order asked for."""
        found = self.fetch(ids)
        return [(found[id_].title, found[id_].text) for id_ in ids]

    def further(self, arm: Route) -> FurtherArm:
        """Refuse: shards have no further arms.

        Raises:
            ShardError: Always.
        """
        raise ShardError(f"Route '{arm}' cannot be asked for where an index is dealt to shards.")

    def allowed(self, filter_: object | None) -> Mask | None:
        """A placeholder for a filter's mask, from which each shard makes its own.

        Raises:
            FilterError: The filter is not well formed.
        """
        if filter_ is None:
            return None
        parse_filter(filter_)
        return cast(Mask, _Allowed(filter_))

    def words_in(self, text: str, ids: Sequence[str]) -> tuple[WordCoverage, ...]:
        """How some passages cover the content words of a question."""
        asked = content_terms(text)
        found = _by_id(self.shards.ask("words", text=text, ids=list(ids)))
        weights = self.lexical.idf(asked)
        return tuple(
            WordCoverage(
                word,
                weights[word],
                *(bits([bool(found[i][place][side]) for i in ids]) for side in (0, 1)),
            )
            for place, word in enumerate(asked)
        )


class ShardedDense:
    """The dense arm over all shards."""

    name = str(Route.DENSE)
    deepest = 0

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    def search(
        self, queries: Sequence[Query], k: int, allowed: Mask | None = None
    ) -> list[Ranking]:
        """At most k passages for each question."""
        vectors = [_plain(query.vector) for query in queries]
        found = self._shards.ask("dense", vectors=vectors, k=k, **_filter(allowed, ids=True))
        return _merged(self.name, found.values(), k)

    def scores(self, queries: Sequence[Query], allowed: Mask | None = None) -> list[Scores]:
        """Not supported: scores stay on the shards."""
        raise NotImplementedError

    def rank(self, scores: Scores, k: int, allowed: Mask | None = None) -> Ranking:
        """Not supported, since there are no scores here."""
        raise NotImplementedError


class ShardedLexical:
    """The lexical arm, with the BM25 statistics of all shards."""

    name = str(Route.LEXICAL)
    deepest = 0

    def __init__(self, shards: Shards, settings: LexicalSettings) -> None:
        self._shards = shards
        self._settings = settings

    @property
    def mean(self) -> float:
        """Mean number of terms of a passage."""
        return self._shards.total("terms") / max(1, self._shards.total("passages"))

    def idf(self, asked: Iterable[str]) -> dict[str, float]:
        """Inverse document frequency of terms."""
        distinct = list(dict.fromkeys(asked))
        found = self._shards.ask("frequencies", terms=distinct).values() if distinct else ()
        size = self._shards.total("passages")
        sums = [sum(counts) for counts in zip(*found, strict=True)]
        return {
            term: math.log(1 + (size - passages + 0.5) / (passages + 0.5))
            for term, passages in zip(distinct, sums, strict=True)
        }

    def weighed(self, texts: Sequence[str]) -> list[list[tuple[str, float]]]:
        """The terms of questions with their weights."""
        own = self._settings
        asked = [terms(text, own.stemmer, frozenset(own.stopwords)) for text in texts]
        weights = self.idf(term for each in asked for term in each)
        return [[(term, weights[term]) for term in each] for each in asked]

    def search(
        self, queries: Sequence[Query], k: int, allowed: Mask | None = None
    ) -> list[Ranking]:
        """At most k passages for each question."""
        asked = self.weighed([query.text for query in queries])
        given = {"questions": asked, "mean": self.mean, "k": k, **_filter(allowed)}
        return _merged(self.name, self._shards.ask("lexical", **given).values(), k, NO_TERM)

    def scores(self, queries: Sequence[Query], allowed: Mask | None = None) -> list[Scores]:
        """Not supported: scores stay on the shards."""
        raise NotImplementedError

    def rank(self, scores: Scores, k: int, allowed: Mask | None = None) -> Ranking:
        """Not supported, since there are no scores here."""
        raise NotImplementedError


class ShardedGraph:
    """The graph arm over all shards."""

    def __init__(self, shards: Shards, settings: TriGraphSettings, lexical: ShardedLexical) -> None:
        """Check the settings.

        Raises:
            ShardError: Shards do not support these settings.
        """
        if settings.activation != "bridging" or settings.seeds.nearest:
            raise ShardError("Shards go along bridges from names; take the graph's defaults.")
        self.shards, self.settings, self.lexical = shards, settings, lexical

    def needs_vector(self, mention: str) -> bool:  # noqa: ARG002
        """False: names are found word for word."""
        return False

    def batch(self, queries: Sequence[Query], allowed: Mask | None) -> "ShardedGraphBatch":
        """Begin a batch of questions."""
        return ShardedGraphBatch(self, queries, _filter(allowed))


class ShardedGraphBatch:
    """A batch of questions for all graphs; see `retriever.TriGraphBatch`."""

    def __init__(
        self, arm: ShardedGraph, queries: Sequence[Query], filter_: Mapping[str, object]
    ) -> None:
        self._arm, self._queries, self._filter = arm, queries, filter_
        self._ask: Callable[..., dict[str, Any]] = arm.shards.ask
        self._in_words: dict[int, list[_Seed]] = {}
        self._seeds: dict[int, list[_Seed]] = {}

    def needs_parse(self, place: int) -> bool:
        """Whether the mentions that a parser finds could change a question's seeds."""
        return not self._suffice(self._named(place))

    def seeds(self, place: int) -> tuple[SeedStats, ...]:
        """A question's seeds."""
        found = self._found(place)
        counts = self._counts([seed.key for seed in found])
        return tuple(
            SeedStats(seed.mention, seed.value, seed.origin, passages, titles)
            for seed, (passages, titles, _) in zip(found, counts, strict=True)
        )

    def names_in(self, place: int, ids: Sequence[str]) -> tuple[NameCoverage, ...]:
        """How some passages cover the names that are spelt out in a question."""
        named = self._named(place)
        if not named:
            return ()
        keys = [seed.key for seed in named]
        found, counts = _by_id(self._ask("named", keys=keys, ids=list(ids))), self._counts(keys)
        return tuple(
            NameCoverage(
                seed.mention,
                seed.value,
                *counts[row][:2],
                *(bits([bool(found[id_][row][side]) for id_ in ids]) for side in (0, 1)),
            )
            for row, seed in enumerate(named)
        )

    def search(
        self,
        places: Sequence[int],
        k: int,
        similarities: Mapping[int, Scores],  # noqa: ARG002
        lexical: Mapping[int, Scores],  # noqa: ARG002
    ) -> list[Ranking]:
        """At most k passages for some questions."""
        return [self._rank(self._walk(place), k) for place in places]

    def explain(self, place: int, ranking: Ranking) -> Explanation:
        """Explain the ranks of passages, by repeating the walk."""
        walk = self._walk(place)
        active, ids = walk.active, [hit.id for hit in ranking.hits]
        keys = sorted(active.value, key=lambda key: (-active.weight[key], key))
        led: dict[str, list[int]] = {}
        for sentence, _ in active.bridges.values():
            led.setdefault(sentence.shard, []).append(sentence.row)
        own = {shard: {"sentences": rows} for shard, rows in led.items()}
        found = self._ask("explain", own, walk=walk.name, keys=keys, ids=ids)
        known = [
            [answer["entities"].get(key, (key, 0)) for answer in found.values()] for key in keys
        ]
        names = {key: _most_usual(of) for key, of in zip(keys, known, strict=True)}
        texts = {
            (shard, row): text
            for shard, answer in found.items()
            for row, text in zip(led.get(shard, ()), answer["sentences"], strict=True)
        }

        def bridge(key: str) -> BridgeNote | None:
            if key not in active.bridges:
                return None
            one, source = active.bridges[key]
            passage, text = texts.get((one.shard, one.row), ("", LOST))
            return BridgeNote(names[source], passage, text, one.near)

        entities = (
            EntityNote(
                names[key],
                active.level[key],
                active.value[key],
                active.weight[key],
                sum(passages for _, passages in of),
                bridge(key),
            )
            for key, of in zip(keys, known, strict=True)
        )
        shares = _by_id({shard: answer["passages"] for shard, answer in found.items()})
        total, settled = walk.total or 1, sum(answer["settled"] for answer in found.values()) or 1
        passages = (
            PassageNote(id_, prior / total, mass / settled, tuple(names[key] for key in mentioned))
            for id_, (prior, mass, mentioned) in (
                (id_, shares[id_]) for id_ in ids if id_ in shares
            )
        )
        return Explanation(
            tuple(
                SeedNote(seed.mention, names[seed.key], seed.value, seed.origin)
                for seed in walk.seeds
            ),
            tuple(sorted(entities, key=lambda one: (one.level, -one.weight, one.entity))),
            tuple(passages),
        )

    def _named(self, place: int) -> list[_Seed]:
        """The longest names in a question's words, from left to right."""
        if place not in self._in_words:
            text, settings = self._queries[place].text, self._arm.settings.seeds
            tokens = tokenise(text)
            (links,) = self._links([tokens]) if settings.vocabulary else ([],)
            found = [
                _Seed(
                    key,
                    confidence(tokens, start, start + length, settings),
                    stretch(text, start, length),
                    "vocabulary",
                )
                for start, length, key in links
            ]
            self._in_words[place] = self._best(found)
        return self._in_words[place]

    def _links(
        self, texts: Sequence[list[str]], starts: Sequence[Collection[int]] | None = None
    ) -> list[list[tuple[int, int, str]]]:
        """Names in texts, the longest of any shard, from left to right, none overlapping.

        Args:
            starts: Positions in each text at which a name may start; None for all.
        """
        answers = self._ask("names", texts=list(texts)).values() if texts else ()
        found = []
        for place, tokens in enumerate(texts):
            longest: dict[int, tuple[int, str]] = {}
            for start, length, key in (link for answer in answers for link in answer[place]):
                if starts is None or start in starts[place]:
                    longest[start] = max(longest.get(start, (0, "")), (length, key))
            links, start = [], 0
            while start < len(tokens):
                length, key = longest.get(start, (1, ""))
                if key:
                    links.append((start, length, key))
                start += length
            found.append(links)
        return found

    def _suffice(self, seeds: Sequence[_Seed]) -> bool:
        return not self._arm.shards.has_phrases and any(seed.value >= 1 for seed in seeds)

    def _found(self, place: int) -> list[_Seed]:
        if place not in self._seeds:
            named = self._named(place)
            if not self._suffice(named):
                tagged = list(self._tagged(self._queries[place], "entity"))
                phrases = list(self._tagged(self._queries[place], "phrase"))
                named = self._best([*tagged, *named, *phrases])
            self._seeds[place] = named
        return self._seeds[place]

    def _tagged(self, query: Query, kind: str) -> Iterator[_Seed]:
        """Seeds from the query's mentions of a kind that are entities of that kind."""
        mentions = [mention.text for mention in query.mentions if mention.kind == kind]
        keys = [entity_key(text) for text in mentions]
        value = 1.0 if kind == "entity" else self._arm.settings.seeds.noun_phrase
        origin = "name" if kind == "entity" else "phrase"
        counts = self._counts(keys)
        for text, key, (passages, _, is_name) in zip(mentions, keys, counts, strict=True):
            if passages and is_name == (kind == "entity"):
                yield _Seed(key, value, text, origin)

    def _best(self, found: Sequence[_Seed]) -> list[_Seed]:
        counts = self._counts([seed.key for seed in found])
        best: dict[str, _Seed] = {}
        for seed, (passages, _, _) in zip(found, counts, strict=True):
            if passages and (seed.key not in best or best[seed.key].value < seed.value):
                best[seed.key] = seed
        return [*best.values()]

    def _counts(self, keys: Sequence[str]) -> list[tuple[int, int, bool]]:
        """For each key, counts of passages and titled ones, and if any shard has it as a name."""
        if not keys:
            return []
        found = self._ask("entities", keys=list(keys), **self._filter).values()
        return [
            (sum(p for p, _, _ in own), sum(t for _, t, _ in own), any(n for _, _, n in own))
            for own in zip(*found, strict=True)
        ]

    def _activate(self, query: Query, seeds: Sequence[_Seed]) -> _Active:
        """Bridging as in `bridging.bridge`, over the nearest sentences of any shard."""
        settings, used = self._arm.settings, set[tuple[str, int]]()
        active = _Active({seed.key: seed.value for seed in seeds})
        known: dict[str, list[_Sentence]] = {}
        reached = dict(active.value)
        for step in range(2, settings.steps + 1):
            expanded = sorted(key for key, value in reached.items() if value >= settings.threshold)
            self._compare(query, [key for key in expanded if key not in known], known)
            found: dict[str, float] = {}
            taken: list[tuple[float, _Sentence, str]] = []
            for key in expanded:
                unused = [one for one in known[key] if (one.shard, one.row) not in used]
                for one in unused[: settings.sentences_per_entity]:
                    used.add((one.shard, one.row))
                    if reached[key] * one.near >= settings.threshold:
                        taken.append((reached[key] * one.near, one, key))
            words, starts = [one.words for _, one, _ in taken], [one.starts for _, one, _ in taken]
            for (passed_on, one, source), links in zip(
                taken, self._links(words, starts), strict=True
            ):
                named = {key for _, _, key in links if says_enough(key)}
                for other in {*one.mentions, *named}:
                    active.weight[other] = active.weight.get(other, 0.0) + passed_on
                    found[other] = max(found.get(other, 0.0), passed_on)
                    if other not in active.level:
                        active.level[other], active.bridges[other] = step, (one, source)
            for key, value in found.items():
                active.value[key] = max(active.value.get(key, 0.0), value)
            reached = found
            if not found:
                break
        return active

    def _compare(
        self, query: Query, keys: Sequence[str], known: dict[str, list["_Sentence"]]
    ) -> None:
        if not keys:
            return
        vector = _plain(query.vector)
        given = {"vector": vector, "keys": list(keys), "most": COMPARED, **self._filter}
        found = self._ask("sentences", **given)
        for place, key in enumerate(keys):
            of_all = (
                _Sentence(near, shard, row, *rest)
                for shard, answer in found.items()
                for near, row, *rest in answer[place]
            )
            known[key] = sorted(of_all, key=lambda one: (-one.near, one.shard, one.row))

    def _walk(self, place: int) -> _Walk:
        query, settings, arm = self._queries[place], self._arm.settings, self._arm
        seeds = self._found(place)
        active = self._activate(query, seeds)
        keys = sorted(active.value)
        walk = token_hex(8)
        (asked,) = arm.lexical.weighed([query.text])
        given = {"vector": _plain(query.vector), "terms": asked, "mean": arm.lexical.mean}
        begun = self._ask("begin", walk=walk, keys=keys, **given, **self._filter).values()
        counts = [tuple(map(sum, zip(*own, strict=True))) for own in _columns(begun, "counts")]
        mass = active.weight if settings.summed else active.value
        restart = [
            mass[key] / passages**settings.degree_power if passages else 0.0
            for key, (passages, _, _) in zip(keys, counts, strict=True)
        ]
        doubtful = {seed.key for seed in seeds if seed.value < 1}
        sure = [seed.key for seed in seeds if seed.value >= 1]
        titled = dict(zip(keys, (own[1] for own in counts), strict=True))
        rows = [
            (
                *(key, active.value[key], mass[key], each / own[2] if own[2] else 0.0),
                *(active.level[key], own[1], key in doubtful),
            )
            for key, each, own in zip(keys, restart, counts, strict=True)
        ]
        lows, highs = (
            [own[name] for own in begun if own[name] is not None] for name in ("low", "high")
        )
        weight = (
            settings.lexical_weight_titled
            if any(titled[key] for key in sure)
            else settings.lexical_weight
        )
        scales = {
            "low": min(lows, default=0.0),
            "high": max(highs, default=0.0),
            "best": max(own["best"] for own in begun),
            "lexical_weight": weight,
        }
        answers = self._ask("restart", walk=walk, active=rows, most=EXCHANGED, **scales)
        total = sum(own["total"] for own in answers.values()) + sum(restart)
        offered = {key for own in answers.values() for key in own["passed"]}
        for _ in range(ROUNDS if keys else 0):
            offered = self._step(walk, sorted(offered))
        return _Walk(walk, seeds, active, total)

    def _rank(self, walk: _Walk, k: int) -> Ranking:
        found = self._ask("rank", walk=walk.name, k=k).values()
        share = (1 - self._arm.settings.damping) / walk.total if walk.total else 0.0
        hits = [(id_, score * share) for own, _ in found for id_, score in own]
        candidates, why = sum(size for _, size in found), "" if walk.active.value else NO_SEED
        return _ranking(str(Route.GRAPH), hits, k, candidates, why)

    def _step(self, walk: str, keys: Sequence[str]) -> set[str]:
        """Exchange the masses of entities and walk a step; returns the keys to exchange next."""
        found = self._ask("masses", walk=walk, keys=list(keys)).values()
        shared = {}
        for key, own in zip(keys, zip(*found, strict=True), strict=True):
            passed, weight = (sum(each) for each in zip(*own, strict=True))
            shared[key] = passed / weight if weight else 0.0
        given = {"walk": walk, "shared": shared, "most": EXCHANGED}
        answers = self._ask("step", **given).values()
        return {key for own in answers for key in own}


class ShardedPassages:
    """See `steps.Passages`. Sentences are numbered in the order in which shards return them."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._sentences: list[str] = []

    def names(self, id_: str, vector: Float32, sentences: int) -> Iterator[tuple[str, int]]:
        """The title, then the entities of the sentences nearest to a vector."""
        given: dict[str, Any] = {"id_": id_, "vector": _plain(vector), "sentences": sentences}
        for answer in self._shards.ask("candidates", **given).values():
            for name, sentence in answer:
                if not sentence:
                    yield name, -1
                    continue
                if sentence not in self._sentences[-1:]:
                    self._sentences.append(sentence)
                yield name, len(self._sentences) - 1

    def sentence(self, row: int) -> str:
        """The text of a sentence."""
        return self._sentences[row]

    def mask(self, ids: Iterable[str]) -> Mask:
        """A placeholder for the mask of some passages."""
        return cast(Mask, _Allowed(None, tuple(ids)))


def _plain(vector: Float32) -> list[float]:
    found: list[float] = np.asarray(vector, np.float32).tolist()
    return found


def _filter(allowed: object, *, ids: bool = False) -> dict[str, Any]:
    """The arguments of a call that say which passages are allowed."""
    if not isinstance(allowed, _Allowed):
        return {}
    named = {"ids": list(allowed.ids)} if ids and allowed.ids is not None else {}
    return {"filter": allowed.filter, **named}


def _columns(answers: Iterable[Mapping[str, Any]], name: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(answer[name] for answer in answers), strict=True)


def _by_id(answers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {id_: found for answer in answers.values() for id_, found in answer.items()}


def _merged(
    name: str, answers: Iterable[Sequence[tuple[Any, int]]], k: int, none: str = ""
) -> list[Ranking]:
    """Merge the lists of all shards, for each question."""
    merged = []
    for own in zip(*answers, strict=True):
        hits = [(id_, score) for found, _ in own for id_, score in found]
        candidates = sum(size for _, size in own)
        merged.append(_ranking(name, hits, k, candidates, "" if candidates else none))
    return merged


def _most_usual(names: Sequence[tuple[str, int]]) -> str:
    """The spelling of the shard with the most passages."""
    return max(names, key=lambda one: one[1])[0]


def _ranking(
    name: str, hits: Iterable[tuple[str, float]], k: int, candidates: int, degraded: str = ""
) -> Ranking:
    best = sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:k]
    ranked = tuple(RankedHit(id_, score, rank) for rank, (id_, score) in enumerate(best, 1))
    return Ranking(name, ranked, candidates, degraded)

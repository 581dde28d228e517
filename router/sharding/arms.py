"""The arms of an index divided into shards: each question goes to all, and their lists are merged.

Dense and lexical rankings equal those of one index: inner products do not depend on other passages,
and the counts that BM25 needs are summed. The graph works in rounds. A question's names are the
longest that any shard knows. Bridging takes the nearest sentence of any shard. Restart masses use
the counts of all shards, and during the walk entities' masses are exchanged by key. A name that
only other shards have is linked when bridging reaches it, but takes no part in later steps.

The questions of a batch are walked side by side, so that each round is one call to a shard.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from operator import itemgetter
from secrets import token_hex
from typing import Any, cast

import numpy as np

from backends.coverage import NameCoverage, WordCoverage, bits
from backends.filters import check, keys_of, parse_filter
from backends.lexical import NO_TERM, LexicalSettings, content_terms, terms
from backends.trigraph.explanation import (
    BridgeNote,
    EntityNote,
    Explanation,
    PassageNote,
    SeedNote,
)
from backends.trigraph.linking import says_enough
from backends.trigraph.promotion import FIRST, MOST
from backends.trigraph.retriever import NO_SEED, TriGraphSettings, in_parts
from backends.trigraph.seeds import SeedStats, confidence
from backends.types import Float32, Int64, Mask, Passage, Query, RankedHit, Ranking, Scores
from backends.words import entity_key, stretch, tokenise
from router.batch import FurtherArm
from router.errors import ShardError
from router.settings import Settings
from router.sharding.calls import Answers, Shards, Work, call
from router.types import Route

ROUNDS = 2
"""Steps of a walk. The next would move d⁴ as much mass, a sixteenth, and is left out."""
EXCHANGED = 64
"""Entities that each shard reports after a step: those with the most mass."""
LOST = "(its shard is lost)"
"""Placeholder for a text."""
COMPARED = 8
"""Sentences that each shard reports for an entity, so that used ones can be skipped."""


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
        named_in: Id of a passage that was moved up -> id of the one that mentions its title.
    """

    name: str
    seeds: list[_Seed]
    active: _Active
    total: float
    named_in: Mapping[str, str]


class ShardedArms:
    """`router.batch.Arms` over shards, for one batch: what they answered is kept.

    Attributes:
        version: Sum of the shards' versions, so it grows with each of them.
    """

    def __init__(self, shards: Shards, settings: Settings) -> None:
        self.shards, self._settings = shards, settings
        self.version = shards.total("version")
        self._read: dict[str, Passage] = {}
        self._kinds: dict[str, set[int]] = {}
        self.dense = ShardedDense(shards)
        self.lexical = ShardedLexical(shards, settings.lexical)
        self.graph = ShardedGraph(shards, settings.graph, self.lexical)

    def within(self, until: float) -> "ShardedArms":
        """The same arms for one batch, whose calls all end by `until`; see `Shards.within`."""
        return ShardedArms(self.shards.within(until), self._settings)

    def __len__(self) -> int:
        """How many passages there are."""
        return self.shards.total("passages")

    @cached_property
    def passages(self) -> "ShardedPassages":
        """Access to the names and sentences of passages, for steps."""
        return ShardedPassages(self.shards)

    def fetch(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Id -> passage; a placeholder for those of shards that do not answer."""
        unknown = [id_ for id_ in dict.fromkeys(ids) if id_ not in self._read]
        found = self.shards.ask("passages", ids=unknown).values() if unknown else ()
        known = self._read | {one["id"]: Passage(**one) for own in found for one in own}
        return {id_: known.get(id_) or Passage(id_, "", LOST) for id_ in ids}

    def texts(self, ids: Sequence[str]) -> list[tuple[str, str]]:
        """Title and text of passages, in the order asked for."""
        self._read |= self.fetch(ids)  # the reply will need most of them
        return [(self._read[id_].title, self._read[id_].text) for id_ in ids]

    def further(self, arm: Route) -> FurtherArm:
        """Refuse: shards have no further arms.

        Raises:
            ShardError: Always.
        """
        raise ShardError(f"Route '{arm}' is not available on a sharded index.")

    def allowed(self, filter_: object | None) -> Mask | None:
        """A placeholder for a filter's mask, from which each shard makes its own.

        Raises:
            FilterError: The filter is not well formed, or `check` refuses it for all shards.
        """
        if filter_ is None:
            return None
        parsed = parse_filter(filter_)
        if unknown := sorted(keys_of(parsed) - self._kinds.keys()):
            for own in self.shards.ask("kinds", keys=unknown).values():
                for key, kinds in own.items():
                    self._kinds[key] = self._kinds.get(key, set()).union(kinds)
        if len(self) and not self.shards.missing:  # a shard that is missing may have others
            check(parsed, self._kinds, lambda: {*chain(*self.shards.ask("keys").values())})
        return cast(Mask, _Allowed(filter_))

    def words_in(
        self, texts: Sequence[str], ids: Sequence[Sequence[str]]
    ) -> list[tuple[WordCoverage, ...]]:
        """How some passages of each question cover its content words."""
        asked = [content_terms(text) for text in texts]
        works = [call("words", text=text, ids=[*own]) for text, own in zip(texts, ids, strict=True)]
        found = map(_by_id, self.shards.together(works))
        weights = self.lexical.idf(word for words in asked for word in words)
        return [
            tuple(
                WordCoverage(word, weights[word], *_bits(of, own, place))
                for place, word in enumerate(words)
            )
            for words, of, own in zip(asked, found, ids, strict=True)
        ]


class _TextArm:
    """A text arm over all shards, which keep its scores."""

    deepest = 0

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    def scores(self, queries: Sequence[Query], allowed: Mask | None = None) -> list[Scores]:
        """Not supported: scores stay on the shards."""
        raise NotImplementedError

    def rank(self, scores: Scores, k: int, allowed: Mask | None = None) -> Ranking:
        """Not supported, since there are no scores here."""
        raise NotImplementedError


class ShardedDense(_TextArm):
    """The dense arm over all shards."""

    name = str(Route.DENSE)

    def search(
        self, queries: Sequence[Query], k: int, allowed: Mask | None = None
    ) -> list[Ranking]:
        """At most k passages for each question."""
        vectors = [_plain(query.vector) for query in queries]
        found = self._shards.ask("dense", vectors=vectors, k=k, **_filter(allowed, ids=True))
        return _merged(self.name, found.values(), k)


class ShardedLexical(_TextArm):
    """The lexical arm, with the BM25 statistics of all shards."""

    name = str(Route.LEXICAL)

    def __init__(self, shards: Shards, settings: LexicalSettings) -> None:
        super().__init__(shards)
        self._settings = settings
        self._idf: dict[str, float] = {}

    @property
    def mean(self) -> float:
        """Mean number of terms of a passage."""
        return self._shards.total("terms") / max(1, self._shards.total("passages"))

    def idf(self, asked: Iterable[str]) -> dict[str, float]:
        """Inverse document frequency of terms, at least of those asked for."""
        unknown = [term for term in dict.fromkeys(asked) if term not in self._idf]
        found = self._shards.ask("frequencies", terms=unknown).values() if unknown else ()
        size = self._shards.total("passages")
        for term, counts in zip(unknown, zip(*found, strict=True), strict=True):
            self._idf[term] = math.log(1 + (size - sum(counts) + 0.5) / (sum(counts) + 0.5))
        return self._idf

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


class ShardedGraph:
    """The graph arm over all shards."""

    def __init__(self, shards: Shards, settings: TriGraphSettings, lexical: ShardedLexical) -> None:
        """Check the settings.

        Raises:
            ShardError: Shards do not support these settings.
        """
        if settings.activation != "bridging" or settings.seeds.nearest:
            raise ShardError(
                "Shards support only the graph's default activation and seeds; unset "
                "WYE_GRAPH__ACTIVATION and WYE_PRESET."
            )
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
        self, arm: ShardedGraph, queries: Sequence[Query], filter_: Mapping[str, Any]
    ) -> None:
        self._arm, self._queries, self._filter = arm, queries, filter_
        self._counts: dict[str, tuple[int, int, bool]] = {}
        self._seeds: dict[int, list[_Seed]] = {}

    def needs_parse(self, place: int) -> bool:
        """Whether the mentions that a parser finds could change a question's seeds."""
        return not self._suffice(self._named[place])

    def names(self, place: int) -> list[str]:
        """Names of entities in a question's words, of several words or spelt as names."""
        seeds = self._named[place]
        return [seed.mention for seed in seeds if seed.value >= 1 or " " in seed.mention]

    def seeds(self, places: Sequence[int]) -> list[tuple[SeedStats, ...]]:
        """The seeds of some questions."""
        return [
            tuple(
                SeedStats(seed.mention, seed.value, seed.origin, *self._counts[seed.key][:2])
                for seed in found
            )
            for found in self._found(places)
        ]

    def names_in(
        self, places: Sequence[int], ids: Sequence[Sequence[str]]
    ) -> list[tuple[NameCoverage, ...]]:
        """How some passages of each question cover the names that are spelt out in it."""
        named = [self._named[place] for place in places]
        works = [
            call("named", keys=[seed.key for seed in seeds], ids=[*own])
            for seeds, own in zip(named, ids, strict=True)
        ]
        found = map(_by_id, self._arm.shards.together(works))
        return [
            tuple(
                NameCoverage(
                    seed.mention, seed.value, *self._counts[seed.key][:2], *_bits(of, own, row)
                )
                for row, seed in enumerate(seeds)
            )
            for seeds, of, own in zip(named, found, ids, strict=True)
        ]

    def search(
        self,
        places: Sequence[int],
        k: int,
        similarities: Mapping[int, Scores],  # noqa: ARG002
        lexical: Mapping[int, Scores],  # noqa: ARG002
    ) -> list[Ranking]:
        """At most k passages for some questions."""
        shards = self._arm.shards
        # A shard keeps few walks, and each call has to end in time: 16 walks go side by side, over
        # many passages fewer.
        parts = in_parts([*self._begun(places)], max(1_000_000, 4 * shards.total("passages")))
        return [
            ranking
            for part in parts
            for ranking in shards.together([self._ranked(*one, k) for one in part])
        ]

    def explain(self, place: int, ranking: Ranking) -> Explanation:
        """Explain the ranks of passages, by repeating the walk."""
        (walk,) = self._arm.shards.together([self._walk(*one) for one in self._begun([place])])
        active, ids = walk.active, [hit.id for hit in ranking.hits]
        keys = sorted(active.value, key=lambda key: (-active.weight[key], key))
        led: dict[str, list[int]] = {}
        for sentence, _ in active.bridges.values():
            led.setdefault(sentence.shard, []).append(sentence.row)
        own = {shard: {"sentences": rows} for shard, rows in led.items()}
        found = self._arm.shards.ask("explain", own, walk=walk.name, keys=keys, ids=ids)
        known = [
            [answer["entities"].get(key, (key, 0)) for answer in found.values()] for key in keys
        ]
        # The spelling of the shard with the most passages.
        names = {key: max(of, key=itemgetter(1))[0] for key, of in zip(keys, known, strict=True)}
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
            PassageNote(
                id_,
                prior / total,
                mass / settled,
                tuple(names[key] for key in mentioned),
                walk.named_in.get(id_, ""),
            )
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

    @cached_property
    def _named(self) -> list[list[_Seed]]:
        """The longest names in each question's words, from left to right."""
        settings, texts = self._arm.settings.seeds, [query.text for query in self._queries]
        tokens = [tokenise(text) for text in texts]
        links: list[list[tuple[int, int, str]]] = [[] for _ in texts]
        if settings.vocabulary:
            (links,) = self._arm.shards.together([self._links(tokens)])
        found = [
            [
                _Seed(
                    key,
                    confidence(words, start, start + length, settings),
                    stretch(text, start, length),
                    "vocabulary",
                )
                for start, length, key in of
            ]
            for text, words, of in zip(texts, tokens, links, strict=True)
        ]
        self._count(seed.key for seeds in found for seed in seeds)
        return [self._best(seeds) for seeds in found]

    def _links(
        self, texts: Sequence[list[str]], starts: Sequence[Collection[int]] | None = None
    ) -> Work[list[list[tuple[int, int, str]]]]:
        """Names in texts, the longest of any shard, from left to right, none overlapping.

        Args:
            starts: Positions in each text at which a name may start; None for all.
        """
        answers = (yield from call("names", texts=texts)).values() if texts else ()
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

    def _found(self, places: Sequence[int]) -> list[list[_Seed]]:
        """The seeds of some questions."""
        missing = [place for place in places if place not in self._seeds]
        tagged = {
            place: {kind: self._tagged(place, kind) for kind in ("entity", "phrase")}
            for place in missing
            if self.needs_parse(place)
        }
        self._count(seed.key for own in tagged.values() for of in own.values() for seed in of)
        for place in missing:
            found = self._named[place]
            if place in tagged:
                entities, phrases = (
                    [seed for seed in of if self._counts[seed.key][2] == (kind == "entity")]
                    for kind, of in tagged[place].items()
                )
                found = self._best([*entities, *found, *phrases])
            self._seeds[place] = found
        return [self._seeds[place] for place in places]

    def _tagged(self, place: int, kind: str) -> list[_Seed]:
        """Possible seeds: a question's mentions of a kind."""
        value = 1.0 if kind == "entity" else self._arm.settings.seeds.noun_phrase
        origin = "name" if kind == "entity" else "phrase"
        texts = [one.text for one in self._queries[place].mentions if one.kind == kind]
        return [_Seed(entity_key(text), value, text, origin) for text in texts]

    def _best(self, found: Sequence[_Seed]) -> list[_Seed]:
        """Of each entity that an allowed passage mentions, the seed with the highest value."""
        best: dict[str, _Seed] = {}
        for seed in found:
            if self._counts[seed.key][0] and (
                seed.key not in best or best[seed.key].value < seed.value
            ):
                best[seed.key] = seed
        return [*best.values()]

    def _count(self, keys: Iterable[str]) -> None:
        """Ask for each key's passages, its titled ones, and whether any shard has it as a name."""
        asked = [key for key in dict.fromkeys(keys) if key not in self._counts]
        if asked:
            found = self._arm.shards.ask("entities", keys=asked, **self._filter).values()
            for key, own in zip(asked, zip(*found, strict=True), strict=True):
                passages, titled, named = zip(*own, strict=True)
                self._counts[key] = sum(passages), sum(titled), any(named)

    def _activate(self, query: Query, seeds: Sequence[_Seed]) -> Work[_Active]:
        """Bridging as in `bridging.bridge`, over the nearest sentences of any shard."""
        settings, used = self._arm.settings, set[tuple[str, int]]()
        active = _Active({seed.key: seed.value for seed in seeds})
        known: dict[str, list[_Sentence]] = {}
        reached = dict(active.value)
        for step in range(2, settings.steps + 1):
            expanded = sorted(key for key, value in reached.items() if value >= settings.threshold)
            yield from self._compare(query, [key for key in expanded if key not in known], known)
            found: dict[str, float] = {}
            taken: list[tuple[float, _Sentence, str]] = []
            for key in expanded:
                unused = [one for one in known[key] if (one.shard, one.row) not in used]
                for one in unused[: settings.sentences_per_entity]:
                    used.add((one.shard, one.row))
                    if reached[key] * one.near >= settings.threshold:
                        taken.append((reached[key] * one.near, one, key))
            words, starts = [one.words for _, one, _ in taken], [one.starts for _, one, _ in taken]
            all_links = yield from self._links(words, starts)
            for (passed_on, one, source), links in zip(taken, all_links, strict=True):
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
        self, query: Query, keys: Sequence[str], known: dict[str, list[_Sentence]]
    ) -> Work[None]:
        if not keys:
            return
        vector = _plain(query.vector)
        given = {"vector": vector, "keys": list(keys), "most": COMPARED, **self._filter}
        found = yield from call("sentences", **given)
        for place, key in enumerate(keys):
            of_all = (
                _Sentence(near, shard, row, *rest)
                for shard, answer in found.items()
                for near, row, *rest in answer[place]
            )
            known[key] = sorted(of_all, key=lambda one: (-one.near, one.shard, one.row))

    def _begun(
        self, places: Sequence[int]
    ) -> Iterator[tuple[Query, list[_Seed], list[tuple[str, float]]]]:
        """Some questions with their seeds and weighed terms."""
        queries = [self._queries[place] for place in places]
        weighed = self._arm.lexical.weighed([query.text for query in queries])
        return zip(queries, self._found(places), weighed, strict=True)

    def _walk(
        self, query: Query, seeds: list[_Seed], asked: list[tuple[str, float]]
    ) -> Work[_Walk]:
        settings, walk = self._arm.settings, token_hex(8)
        active = yield from self._activate(query, seeds)
        keys = sorted(active.value)
        given = {"terms": asked, "mean": self._arm.lexical.mean, "keys": keys, **self._filter}
        found = yield from call("begin", walk=walk, vector=_plain(query.vector), **given)
        begun = found.values()
        columns = zip(*(own["counts"] for own in begun), strict=True)
        counts = [tuple(map(sum, zip(*own, strict=True))) for own in columns]
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
        answers = yield from call("restart", walk=walk, active=rows, most=EXCHANGED, **scales)
        total = sum(own["total"] for own in answers.values()) + sum(restart)
        offered = {key for own in answers.values() for key in own["passed"]}
        for _ in range(ROUNDS if keys else 0):
            offered = yield from self._step(walk, sorted(offered))
        named_in = (yield from self._promote(walk)) if keys and settings.promotion else {}
        return _Walk(walk, seeds, active, total, named_in)

    def _ranked(
        self, query: Query, seeds: list[_Seed], asked: list[tuple[str, float]], k: int
    ) -> Work[Ranking]:
        walk = yield from self._walk(query, seeds, asked)
        found = (yield from call("rank", walk=walk.name, k=k)).values()
        share = (1 - self._arm.settings.damping) / walk.total if walk.total else 0.0
        hits = [(id_, score * share) for own, _ in found for id_, score in own]
        candidates, why = sum(size for _, size in found), "" if walk.active.value else NO_SEED
        return _ranking(str(Route.GRAPH), hits, k, candidates, why)

    def _step(self, walk: str, keys: Sequence[str]) -> Work[set[str]]:
        """Exchange the masses of entities and walk a step; returns the keys to exchange next."""
        found = (yield from call("masses", walk=walk, keys=keys)).values()
        shared = {}
        for key, own in zip(keys, zip(*found, strict=True), strict=True):
            passed, weight = (sum(each) for each in zip(*own, strict=True))
            shared[key] = passed / weight if weight else 0.0
        answers = yield from call("step", walk=walk, shared=shared, most=EXCHANGED)
        return {key for own in answers.values() for key in own}

    def _promote(self, walk: str) -> Work[dict[str, str]]:
        """Promote passages as `promotion.promote` does; returns what each was named in."""
        found = (yield from call("first", walk=walk, k=FIRST)).values()
        best = sorted((one for own in found for one in own), key=lambda one: (-one[1], one[0]))
        pairs = [(id_, mass, key) for id_, mass, keys in best[:FIRST] for key in keys]
        if not pairs:
            return {}
        keys = [key for _, _, key in pairs]
        counts = (yield from call("entities", keys=keys, **self._filter)).values()
        mentions = [sum(count for count, *_ in own) for own in zip(*counts, strict=True)]
        of = zip(pairs, mentions, strict=True)
        named = [(key, mass, d, id_) for (id_, mass, key), d in of if d <= MOST]
        given = {"named": [own[:3] for own in named], "share": self._arm.settings.promotion}
        moved = (yield from call("promote", walk=walk, **given)).values()
        return {id_: named[place][3] for own in moved for id_, place in own}


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

    def mask(self, ids: Sequence[str], rows: Int64) -> Mask:
        """A placeholder for the mask of some passages."""
        return cast(Mask, _Allowed(None, tuple(ids[row] for row in rows)))


def _plain(vector: Float32) -> list[float]:
    found: list[float] = np.asarray(vector, np.float32).tolist()
    return found


def _filter(allowed: object, *, ids: bool = False) -> dict[str, Any]:
    """The arguments of a call that say which passages are allowed."""
    if not isinstance(allowed, _Allowed):
        return {}
    named = {"ids": list(allowed.ids)} if ids and allowed.ids is not None else {}
    return {"filter": allowed.filter, **named}


def _by_id(answers: Answers) -> dict[str, Any]:
    return {id_: found for answer in answers.values() for id_, found in answer.items()}


def _bits(found: Mapping[str, Any], ids: Sequence[str], place: int) -> tuple[int, int]:
    """For both flags at a place of what was found, which passages have it; lost ones do not."""
    flags = [found[id_][place] if id_ in found else (False, False) for id_ in ids]
    titles, texts = ([bool(one[side]) for one in flags] for side in (0, 1))
    return bits(titles), bits(texts)


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


def _ranking(
    name: str, hits: Iterable[tuple[str, float]], k: int, candidates: int, degraded: str = ""
) -> Ranking:
    best = sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:k]
    ranked = tuple(RankedHit(id_, score, rank) for rank, (id_, score) in enumerate(best, 1))
    return Ranking(name, ranked, candidates, degraded)

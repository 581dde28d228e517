"""The graph arm over all shards, which works in rounds.

A question's names are the longest that any shard knows. Bridging takes the nearest sentence of any
shard. Restart masses use the counts of all shards, and during the walk entities' masses are
exchanged by key. A name that only other shards have is linked when bridging reaches it, but takes
no part in later steps.

The questions of a batch are walked side by side, so that each round is one call to a shard.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from secrets import token_hex
from typing import Any

from backends.coverage import NameCoverage
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
from backends.types import Mask, Query, Ranking, Scores
from backends.words import entity_key, stretch, tokenise
from router.errors import ShardError
from router.sharding.calls import LOST, Shards, Work, call
from router.sharding.text_arms import ShardedLexical, bits_of, by_id, filter_of, listed, ranking_of
from router.types import Route

ROUNDS = 2
"""Steps of a walk. The next would move d⁴ as much mass, a sixteenth, and is left out."""
EXCHANGED = 64
"""Entities that each shard reports after a step: those with the most mass."""
COMPARED = 8
"""Sentences that each shard reports for an entity, so that used ones can be skipped."""


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
        return ShardedGraphBatch(self, queries, filter_of(allowed))


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
        found = map(by_id, self._arm.shards.together(works))
        return [
            tuple(
                NameCoverage(
                    seed.mention, seed.value, *self._counts[seed.key][:2], *bits_of(of, own, row)
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
        shares = by_id({shard: answer["passages"] for shard, answer in found.items()})
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
            (links,) = self._arm.shards.together([self._links(tokens, **self._filter)])
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
        self,
        texts: Sequence[list[str]],
        starts: Sequence[Collection[int]] | None = None,
        **filter_: object,
    ) -> Work[list[list[tuple[int, int, str]]]]:
        """Names in texts, the longest of any shard, from left to right, none overlapping.

        Args:
            starts: Positions in each text at which a name may start; None for all.
            filter_: The call's filter, if passages outside it must not hide a name.
        """
        answers = (yield from call("names", texts=texts, **filter_)).values() if texts else ()
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
        vector = listed(query.vector)
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
        found = yield from call("begin", walk=walk, vector=listed(query.vector), **given)
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
        return ranking_of(str(Route.GRAPH), hits, k, candidates, why)

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

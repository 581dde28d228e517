"""Reads the questions of a batch with the models, running each step only when it is needed.

Here the featurizer's output becomes the backends' input; the two do not know each other.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import Self

import numpy as np

from wye.backends.types import Float32, Float64, Mention, Query
from wye.featurizer.analyser import Analyser
from wye.featurizer.constituency.tree import Tree
from wye.featurizer.encoder import EncodedText
from wye.featurizer.plan import Plan, may_have_plan, plan_by_dependencies, with_names
from wye.featurizer.registry import FEATURE_NAMES, TREE_FEATURES, syntax_matrix
from wye.featurizer.spacy.parser import token_count
from wye.featurizer.types import Parse, Syntax

LONGEST_STEPPED = 40
"""Most tokens of a question that goes in steps: each of its up to 24 searches is as long."""


class QuestionReading:
    """The questions of a batch, identified by position, with what the models found so far.

    Attributes:
        questions: The questions as asked.
        queries: The arms' input; vector and mentions are empty until they are known.
        states: Whether token states are kept, for the vectors of phrases. It may be changed until
            the questions are encoded.
        named: Names in the words of a question, by position, in order: what the corpus knows.
        encoded: The questions with their token states, if `states`, once they are encoded.
        seconds: Wall time of each question by stage. Of work in another thread, only the time spent
            waiting for it counts.
    """

    def __init__(
        self,
        questions: Sequence[str],
        analyser: Callable[[], Analyser],
        *,
        states: bool = False,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        """Begin a reading; no model runs yet.

        Args:
            analyser: Returns the analyser. Not called if no model is needed.
            states: Whether token states are kept.
            clock: Returns the seconds by which stages are timed.
        """
        nothing = np.zeros(0, np.float32)
        self.questions = questions
        self.queries = [Query(text, nothing) for text in questions]
        self.seconds: list[dict[str, float]] = [{} for _ in questions]
        self.named: dict[int, Sequence[str]] = {}
        self.encoded: list[EncodedText] = []
        self.states = states
        self._clock = clock
        self._counted = 0.0
        self._analyser = analyser
        self._parses: dict[int, Parse] = {}
        self._mentioned: set[int] = set()
        self._syntax: dict[int, Syntax] = {}
        self._plans: dict[int, Plan] = {}
        self._features = np.full((len(questions), len(FEATURE_NAMES)), np.nan)
        self._encoding: Future[Float32] | None = None
        self._encoded = False

    @classmethod
    def known(cls, queries: Sequence[Query], analyser: Callable[[], Analyser]) -> Self:
        """A reading of queries that are complete, so that no model runs for them."""
        reading = cls([query.text for query in queries], analyser)
        reading.queries = [*queries]
        reading._encoded = True
        places = range(len(queries))
        reading._parses = {place: Parse(queries[place].text, (), (), ()) for place in places}
        reading._mentioned.update(places)
        return reading

    def encode(self) -> None:
        """Compute the vector of every question, or wait for `encode_beside`."""
        if self._encoded:
            return
        with self.stage("encoding", range(len(self.questions))):
            if self._encoding is None:
                vectors = self._vectors(self._analyser())
            else:
                vectors = self._encoding.result()
        found = zip(self.queries, vectors, strict=True)
        self.queries[:] = [replace(query, vector=vector) for query, vector in found]
        self._encoded = True

    def encode_beside(self, then: Callable[[Float32], None]) -> bool:
        """Encode in another thread, unless already begun, and call `then` there with (n, d).

        Returns:
            Whether it was begun now.
        """
        if self._encoded or self._encoding is not None:
            return False
        analyser = self._analyser()

        def work() -> Float32:
            vectors = self._vectors(analyser)
            then(vectors)
            return vectors

        self._encoding = analyser.beside(work)
        return True

    def _vectors(self, analyser: Analyser) -> Float32:
        if not self.states:
            return analyser.encode_questions(self.questions)
        self.encoded = analyser.encode_with_states(self.questions)
        return np.array([one.vector for one in self.encoded])

    def parse(self, places: Sequence[int], *, tokens: bool) -> None:
        """Parse the questions that are not parsed yet, or lack tokens that are wanted."""
        parses = self._parses
        missing = [p for p in places if p not in parses or (tokens and not parses[p].tokens)]
        if missing:
            with self.stage("parsing", missing):
                texts = [self.questions[place] for place in missing]
                found = self._analyser().parse_questions(texts, tokens=tokens)
            parses.update(zip(missing, found, strict=True))

    def parse_meanwhile(self) -> None:
        """Parse a single question that may have a plan, between `encode_beside` and `encode`.

        That takes little time or none, since the encoder runs in another thread. It is not worth
        loading the parser. With several questions the encoder keeps all processors busy, and it is
        better to parse only those that turn out to need it.
        """
        if self._encoding is None or self._encoded or len(self.questions) > 1:
            return
        if self._analyser().has_parser:
            self.parse(self.may_have_plans([0]), tokens=True)

    def may_have_plans(self, places: Sequence[int]) -> list[int]:
        """Those of some questions that may have a plan, by their words, and are not too long."""
        texts = self.questions
        return [
            place
            for place in places
            if token_count(texts[place]) <= LONGEST_STEPPED and may_have_plan(texts[place])
        ]

    def find_mentions(self, places: Sequence[int], wanted: Callable[[str], bool]) -> None:
        """Add the mentions of parsed questions to their queries; call it after `encode`.

        Args:
            wanted: Whether the vector of a named entity will be needed.
        """
        missing = [place for place in places if place not in self._mentioned]
        named = {entity.text for place in missing for entity in self._parses[place].entities}
        asked = sorted(filter(wanted, named))
        vectors: dict[str, Float32] = {}
        if asked:
            with self.stage("encoding", missing):
                found = self._analyser().encode_surfaces(asked)
            vectors.update(zip(asked, found, strict=True))
        for place in missing:
            mentions = _mentions(self._parses[place], vectors)
            self.queries[place] = replace(self.queries[place], mentions=mentions)
        self._mentioned.update(missing)

    def features(
        self, places: Sequence[int], names: Collection[str], *, trees: bool = False
    ) -> Float64:
        """Features (len(places), d), columns as in `FEATURE_NAMES`; NaN if never asked for.

        Args:
            names: Features that are wanted.
            trees: Build trees even if no wanted feature needs them.
        """
        if names:
            self.parse(places, tokens=True)
            self._build(places, trees=trees or not TREE_FEATURES.isdisjoint(names))
            with self.stage("features", places):
                found = syntax_matrix([self._syntax[place] for place in places], names)
            for place, row in zip(places, found, strict=True):
                np.copyto(self._features[place], row, where=~np.isnan(row))
        return self._features[places]

    def trees(self, place: int) -> tuple[Tree, ...]:
        """The trees of a question's sentences; empty if they were not built."""
        return self._syntax[place].trees if place in self._syntax else ()

    def build_trees(self, places: Sequence[int]) -> None:
        """Parse some questions and build their trees, for explanations."""
        self.parse(places, tokens=True)
        self._build(places, trees=True)

    def plan(self, place: int) -> Plan:
        """The plan of a question; empty if it was not parsed with its tokens.

        Plans come from dependencies, which need no further model; plans from constituency trees
        find nothing better. They are fitted to the names that are known when it is first asked for.
        """
        parse = self._parses.get(place)
        if parse is None or not parse.tokens:
            return Plan()
        if place not in self._plans:
            plan, spans = plan_by_dependencies(parse.tokens, parse.token_sentences), []
            question, end = self.questions[place], 0
            for name in self.named.get(place, ()):
                if (start := question.find(name, end)) >= 0:
                    spans.append((start, end := start + len(name)))
            self._plans[place] = with_names(plan, question, spans)
        return self._plans[place]

    def plans(self, places: Sequence[int]) -> list[Plan]:
        """The plans of some questions, parsing them if needed."""
        self.parse(places, tokens=True)
        return [self.plan(place) for place in places]

    def _build(self, places: Sequence[int], *, trees: bool) -> None:
        built = self._syntax
        missing = [p for p in places if p not in built or (trees and not built[p].trees)]
        if missing:
            with self.stage("trees" if trees else "features", missing):
                parses = [self._parses[place] for place in missing]
                built.update(
                    zip(missing, self._analyser().syntax_of(parses, trees=trees), strict=True)
                )

    @contextmanager
    def stage(self, name: str, places: Sequence[int]) -> Iterator[None]:
        """Time the block under a stage's name, in equal shares for these questions.

        The time of a stage within another counts only for the inner one.
        """
        start, before = self._clock(), self._counted
        yield
        own = self._clock() - start - (self._counted - before)
        self._counted += own
        share = own / max(len(places), 1)
        for place in places:
            seconds = self.seconds[place]
            seconds[name] = seconds.get(name, 0.0) + share


def _mentions(parse: Parse, vectors: Mapping[str, Float32]) -> tuple[Mention, ...]:
    """Named entities, then noun phrases, each once."""
    entities = dict.fromkeys(entity.text for entity in parse.entities)
    phrases = dict.fromkeys(phrase.key for phrase in parse.phrases)
    return (
        *(Mention(text, "entity", vectors.get(text)) for text in entities),
        *(Mention(key, "phrase") for key in phrases),
    )

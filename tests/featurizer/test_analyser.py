"""Passages and questions through the packaged models: what is encoded, and what comes back."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest

import featurizer.analyser
from featurizer.analyser import ANALYSIS_VERSION, Analyser, AnalyserSettings
from featurizer.constituency.parser import ConstituencySettings, SyntaxParser, TreeParser
from featurizer.encoder import Encoder, EncoderSettings
from featurizer.errors import ModelError
from featurizer.spacy_parser import SpacyParser
from featurizer.types import Float32, Parse, PassageAnalysis, Span

ITEMS = [
    (
        "The copper lamp",
        "Selma Berg sailed to Lisbon. It rained. A copper lamp hung over the harbour.\n\n"
        "Nobody spoke to her. Otto Lind met Selma Berg and Selma Berg's sister in Rome.",
    ),
    ("", "Otto Lind lives in Oslo."),
    ("Empty", ""),
    ("Nothing", "It rained. Nobody spoke."),
    ("Signs", "😀 Lisbon! ?? שלום."),
]
NEVER = "It rained and then they slept until it stopped. "


class Passage(NamedTuple):
    title: str
    text: str


class Spy:
    """Stands before an encoder and writes down what it was asked for."""

    def __init__(self, encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.calls = 0
        real = encoder.encode_spans

        def encode_spans(
            texts: Sequence[str], spans: Sequence[Sequence[Span]]
        ) -> tuple[Float32, list[Float32]]:
            self.asked += texts
            self.calls += bool(texts)
            return real(texts, spans)

        monkeypatch.setattr(encoder, "encode_spans", encode_spans)


@pytest.fixture
def spy(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> Spy:
    return Spy(encoder, monkeypatch)


def analyser(parser: SpacyParser, encoder: Encoder, mode: str = "pooled") -> Analyser:
    return Analyser(AnalyserSettings(sentence_vectors=mode), parser=parser, encoder=encoder)


def analyse(chosen: Analyser, items: Sequence[tuple[str, str]]) -> list[PassageAnalysis]:
    return chosen.analyse([Passage(title, text) for title, text in items])


def texts_of(analysis: PassageAnalysis) -> list[str]:
    return [sentence.text for sentence in analysis.sentences]


def same(one: PassageAnalysis, other: PassageAnalysis) -> bool:
    return np.array_equal(one.vector, other.vector) and [
        (s.text, s.entities, s.phrases, s.vector.tolist()) for s in one.sentences
    ] == [(s.text, s.entities, s.phrases, s.vector.tolist()) for s in other.sentences]


def test_sentences_keep_what_they_mention_and_those_without_are_dropped(
    parser: SpacyParser, encoder: Encoder
) -> None:
    found = analyse(analyser(parser, encoder), ITEMS)
    assert texts_of(found[0]) == [
        "Selma Berg sailed to Lisbon.",
        "A copper lamp hung over the harbour.",
        "Otto Lind met Selma Berg and Selma Berg's sister in Rome.",
    ]
    first, lamp, last = found[0].sentences
    assert first.entities == ("Selma Berg", "Lisbon")
    assert lamp.entities == ()
    assert lamp.phrases == ("copper lamp", "harbour")
    # Repeats are kept, and what is at home in one sentence is not in another.
    assert [name.removesuffix("'s") for name in last.entities] == [
        "Otto Lind",
        "Selma Berg",
        "Selma Berg",
        "Rome",
    ]
    assert "selma berg sister" in last.phrases
    assert found[1].sentences[0].entities == ("Otto Lind", "Oslo")
    assert [analysis.sentences for analysis in found[2:4]] == [(), ()]
    for analysis in found:
        for vector in (analysis.vector, *(s.vector for s in analysis.sentences)):
            assert vector.dtype == np.float32
            assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("mode", ["pooled", "contextual", "plain"])
def test_a_passages_vector_is_of_its_title_and_text(
    parser: SpacyParser, encoder: Encoder, mode: str
) -> None:
    found = analyse(analyser(parser, encoder, mode), ITEMS)
    expected = encoder.encode([f"{title}\n{text}" if title else text for title, text in ITEMS])
    assert np.array_equal(np.stack([analysis.vector for analysis in found]), expected)


def test_pooled_sentence_vectors_come_from_the_passages_own_pass(
    parser: SpacyParser, encoder: Encoder, spy: Spy
) -> None:
    found = analyse(analyser(parser, encoder), ITEMS)
    assert spy.asked == [f"{title}\n{text}" if title else text for title, text in ITEMS]
    title, text = ITEMS[0]
    whole = f"{title}\n{text}"
    spans = [
        (whole.index(sentence), whole.index(sentence) + len(sentence))
        for sentence in texts_of(found[0])
    ]
    (expected,) = encoder.encode_spans([whole], [spans])[1]
    assert np.array_equal(np.stack([s.vector for s in found[0].sentences]), expected)


@pytest.mark.parametrize(("mode", "head"), [("contextual", "The copper lamp: "), ("plain", "")])
def test_sentences_encoded_by_themselves(
    parser: SpacyParser, encoder: Encoder, mode: str, head: str
) -> None:
    found = analyse(analyser(parser, encoder, mode), ITEMS)
    expected = encoder.encode([head + text for text in texts_of(found[0])])
    assert np.array_equal(np.stack([s.vector for s in found[0].sentences]), expected)
    # Where there is no title there is nothing to put before a sentence.
    untitled = encoder.encode(["Otto Lind lives in Oslo."])[0]
    assert np.array_equal(found[1].sentences[0].vector, untitled)


@pytest.mark.parametrize("mode", ["pooled", "contextual"])
def test_an_analysis_does_not_depend_on_what_is_analysed_beside(
    parser: SpacyParser, encoder: Encoder, mode: str
) -> None:
    chosen = analyser(parser, encoder, mode)
    items = [*ITEMS, ("Long", NEVER * 26 + "Otto Lind slept in Lisbon. " * 6)]
    together = analyse(chosen, items)
    backwards = analyse(chosen, items[::-1])[::-1]
    for item, one, other in zip(items, together, backwards, strict=True):
        assert same(one, other)
        assert same(one, analyse(chosen, [item])[0])
    assert analyse(chosen, []) == []


LONG = {
    "many sentences": ("Ships", "".join(f"Ship {n} sailed to Lisbon. " for n in range(150))),
    "nothing named for pages": ("Rain", NEVER * 60 + "Otto Lind woke in Rome. " + NEVER * 60),
    "one endless sentence": ("List", "Otto Lind saw Rome" + ", and Lisbon" * 400 + ". So did Eva."),
    "a title of pages": ("Lamp " * 500, "Otto Lind slept. Eva Berg woke in Oslo."),
    "words without end": ("W", ("x" * 150 + " ") * 40 + ". Otto Lind woke in Rome. Eva slept."),
    "letters of several tokens": (
        "한",
        "Lisbon 한국어는 아름답다. " * 12 + "Otto Lind woke in Rome.",
    ),
    "no spaces": ("", "Lisbon," * 900),
}


@pytest.mark.parametrize("name", LONG)
def test_every_sentence_of_a_passage_beyond_the_encoders_reach_has_a_vector(
    parser: SpacyParser, encoder: Encoder, name: str
) -> None:
    title, text = LONG[name]
    (found,) = analyse(analyser(parser, encoder), [(title, text)])
    assert found.sentences
    lengths = [np.linalg.norm(sentence.vector) for sentence in found.sentences]
    assert lengths == pytest.approx([1] * len(lengths), abs=1e-6)
    head = f"{title}\n" if title else ""
    assert np.array_equal(found.vector, encoder.encode([head + text])[0])
    place = 0
    for sentence in found.sentences:
        place = text.index(sentence.text, place) + len(sentence.text)


def test_a_sentence_behind_the_first_page_knows_its_title_and_what_follows(
    parser: SpacyParser, encoder: Encoder
) -> None:
    title, text = LONG["nothing named for pages"]
    (found,) = analyse(analyser(parser, encoder), [(title, text)])
    (sentence,) = [s for s in found.sentences if "Otto" in s.text]
    start = text.index("Otto")
    window = f"{title}\n{text[start:]}"
    first = len(title) + 1
    (expected,) = encoder.encode_spans([window], [[(first, first + len(sentence.text))]])[1]
    np.testing.assert_allclose(sentence.vector, expected[0], atol=1e-6)


def test_work_on_a_long_passage_grows_with_its_length_only(
    parser: SpacyParser, encoder: Encoder, spy: Spy
) -> None:
    text = "".join(f"Ship {n} sailed to Lisbon. " for n in range(300))
    analyse(analyser(parser, encoder), [("Ships", text)])
    assert len(spy.asked) > 5
    assert spy.asked[0] == f"Ships\n{text}"
    page = featurizer.analyser.CHARACTERS_PER_TOKEN * 256
    assert max(map(len, spy.asked[1:])) <= len("Ships\n") + page


def test_prefixes_that_the_encoder_was_trained_with(
    parser: SpacyParser, encoder: Encoder, spy: Spy
) -> None:
    settings = EncoderSettings(question_prefix="query: ", passage_prefix="passage: ")
    chosen = Analyser(AnalyserSettings(encoder=settings), parser=parser, encoder=encoder)
    analyse(chosen, [("Oslo", "Otto Lind lives there.")])
    chosen.questions(["Where is Otto Lind?"], lambda _: True)
    chosen.encode_surfaces(["Otto Lind"])
    assert spy.asked == [
        "passage: Oslo\nOtto Lind lives there.",
        "query: Where is Otto Lind?",
        "Otto Lind",
        "Otto Lind",
    ]


QUESTIONS = [
    "Where did Otto Lind meet Selma Berg, and why did Otto Lind leave Oslo?",
    "which copper lamp hung over the harbour",
    "",
    "Is Oslo in Norway?",
]


def test_questions_carry_their_mentions_once_entities_first(
    parser: SpacyParser, encoder: Encoder
) -> None:
    found = analyser(parser, encoder).questions(QUESTIONS)
    assert [analysis.parse.text for analysis in found] == QUESTIONS
    assert np.array_equal(np.stack([a.vector for a in found]), encoder.encode(QUESTIONS))
    kinds = [[(m.text, m.kind) for m in a.mentions] for a in found]
    assert [text for text, kind in kinds[0] if kind == "entity"] == [
        "Otto Lind",
        "Selma Berg",
        "Oslo",
    ]
    assert [kind for _, kind in kinds[0]] == sorted(kind for _, kind in kinds[0])
    assert ("copper lamp", "phrase") in kinds[1]
    assert kinds[2] == []
    for row in kinds:
        assert len(row) == len(set(row))
    assert {m.vector is None for a in found for m in a.mentions} == {True}


def test_only_the_mentions_that_are_wanted_are_encoded_each_once_after_the_questions(
    parser: SpacyParser, encoder: Encoder, spy: Spy
) -> None:
    asked: list[str] = []

    def wanted(mention: str) -> bool:
        asked.append(mention)
        return mention == "Oslo"

    found = analyser(parser, encoder).questions(QUESTIONS, wanted)
    assert set(asked) == {"Otto Lind", "Selma Berg", "Oslo", "Norway"}
    assert spy.asked == [*QUESTIONS, "Oslo"]
    assert spy.calls == 2
    expected = encoder.encode(["Oslo"])[0]
    for mention in (m for a in found for m in a.mentions):
        if mention.text == "Oslo" and mention.kind == "entity":
            assert mention.vector is not None
            assert np.array_equal(mention.vector, expected)
        else:
            assert mention.vector is None


def test_a_question_alone_is_analysed_as_in_a_batch(parser: SpacyParser, encoder: Encoder) -> None:
    chosen = analyser(parser, encoder)
    for row, analysis in enumerate(chosen.questions(QUESTIONS, lambda _: True)):
        (alone,) = chosen.questions([QUESTIONS[row]], lambda _: True)
        assert alone.parse == analysis.parse
        assert np.array_equal(alone.vector, analysis.vector)
        assert [(m.text, m.kind) for m in alone.mentions] == [
            (m.text, m.kind) for m in analysis.mentions
        ]
        for one, other in zip(alone.mentions, analysis.mentions, strict=True):
            if one.vector is None or other.vector is None:
                assert one.vector is other.vector
            else:
                assert np.array_equal(one.vector, other.vector)
    assert chosen.questions([]) == []


def test_a_title_can_be_read_as_part_of_the_text(parser: SpacyParser, encoder: Encoder) -> None:
    settings = AnalyserSettings(sentence_vectors="plain", title_in_text=True)
    chosen = Analyser(settings, parser=parser, encoder=encoder)
    (found,) = analyse(chosen, [("Otto Lind", "He lives in Oslo.")])
    assert "Otto Lind" in found.sentences[0].entities
    assert np.array_equal(found.vector, encoder.encode(["Otto Lind\nHe lives in Oslo."])[0])
    assert chosen.fingerprint["title_in_text"] == "true"
    (without,) = analyse(analyser(parser, encoder, "plain"), [("Otto Lind", "He lives in Oslo.")])
    assert without.sentences[0].entities == ("Oslo",)


def test_syntax_comes_from_the_same_parse_and_no_further_encoder_call(
    questions: SyntaxParser,
    encoder: Encoder,
    trees: TreeParser,
    spy: Spy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parser, parsed = SpacyParser(), list[str]()
    real = parser.parse_questions

    def parse_questions(texts: Sequence[str], *, tokens: bool = False) -> list[Parse]:
        parsed.extend(texts)
        return real(texts, tokens=tokens)

    monkeypatch.setattr(parser, "parse_questions", parse_questions)
    chosen = Analyser(AnalyserSettings(), parser=parser, encoder=encoder, trees=trees)
    plain = chosen.questions(QUESTIONS)
    assert {analysis.syntax for analysis in plain} == {None}
    spy.calls, parsed[:] = 0, []
    found = chosen.questions(QUESTIONS, syntax=True)
    assert (spy.calls, parsed) == (1, QUESTIONS)
    assert [analysis.syntax for analysis in found] == questions.parse(QUESTIONS)
    for one, other in zip(found, plain, strict=True):
        assert np.array_equal(one.vector, other.vector)
        assert one.mentions == other.mentions
        assert one.syntax is not None
        assert one.syntax.tokens == one.parse.tokens
        assert other.parse.tokens == ()
    assert chosen.seconds["trees"] > 0
    assert chosen.syntax_fingerprint == questions.fingerprint
    assert not set(chosen.fingerprint) & {"constituency", "syntax"}


def test_the_constituency_model_is_loaded_only_for_syntax(
    parser: SpacyParser, encoder: Encoder
) -> None:
    settings = AnalyserSettings(constituency=ConstituencySettings("no/such/model"))
    chosen = Analyser(settings, parser=parser, encoder=encoder)
    analyse(chosen, ITEMS)
    assert len(chosen.questions(QUESTIONS)) == len(QUESTIONS)
    assert chosen.fingerprint
    with pytest.raises(ModelError, match="'no/such/model' lacks"):
        chosen.questions(QUESTIONS, syntax=True)


def test_a_question_of_a_megabyte(parser: SpacyParser, encoder: Encoder) -> None:
    text = "Where is Oslo? " + "boat " * 200_000 + "Where is Rome?"
    (found,) = analyser(parser, encoder).questions([text])
    assert found.parse.text == text
    assert [mention.text for mention in found.mentions if mention.kind == "entity"] == ["Oslo"]
    assert found.parse.unread > 990_000


def test_surfaces_are_encoded_as_they_stand(parser: SpacyParser, encoder: Encoder) -> None:
    chosen = analyser(parser, encoder)
    names = ["Otto Lind", "OSLO", ""]
    assert np.array_equal(chosen.encode_surfaces(names), encoder.encode(names))
    assert chosen.encode_surfaces([]).shape == (0, chosen.dimension)


def test_the_fingerprint_holds_all_that_stored_rows_depend_on(
    parser: SpacyParser, encoder: Encoder
) -> None:
    chosen = analyser(parser, encoder, "contextual")
    assert chosen.fingerprint == {
        **parser.fingerprint,
        **encoder.fingerprint,
        "sentence_vectors": "contextual",
        "analysis": ANALYSIS_VERSION,
    }
    assert chosen.dimension == 384


def test_seconds_add_up_by_stage(
    parser: SpacyParser, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter(range(100))
    monkeypatch.setattr("featurizer.stopwatch.perf_counter", lambda: float(next(ticks)))
    chosen = analyser(parser, encoder)
    assert chosen.seconds == {"parsing": 0, "trees": 0, "encoding": 0}
    analyse(chosen, ITEMS[:1])
    assert chosen.seconds == {"parsing": 1, "trees": 0, "encoding": 1}
    chosen.questions(QUESTIONS[:1])
    assert chosen.seconds == {"parsing": 2, "trees": 0, "encoding": 2}
    chosen.encode_surfaces(["Oslo"])
    assert chosen.seconds == {"parsing": 2, "trees": 0, "encoding": 3}


def test_time_is_counted_even_when_a_stage_fails(parser: SpacyParser, encoder: Encoder) -> None:
    chosen = analyser(parser, encoder)
    with pytest.raises(ValueError, match="must be of type"):
        chosen.encode_surfaces([None])  # type: ignore[list-item]
    assert chosen.seconds["encoding"] > 0


def test_unknown_sentence_vectors_are_refused_with_those_there_are() -> None:
    with pytest.raises(ModelError, match=r"'mean' is none of pooled, contextual, plain"):
        Analyser(AnalyserSettings(sentence_vectors="mean"))


def test_an_encoder_that_does_not_average_its_tokens_cannot_pool_sentences(
    parser: SpacyParser, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Encoder, "pools_mean", False)
    with pytest.raises(ModelError, match=r"SENTENCE_VECTORS=contextual"):
        analyser(parser, encoder)
    assert analyse(analyser(parser, encoder, "contextual"), ITEMS[1:2])[0].sentences


def test_closing_ends_the_parsers_processes(
    parser: SpacyParser, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = []
    monkeypatch.setattr(parser, "close", lambda: closed.append(True))
    analyser(parser, encoder).close()
    assert closed == [True]

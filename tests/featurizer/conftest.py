"""The packaged models, loaded once; and a small random constituency model."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from spacy.language import Language

from wye.featurizer.constituency.checkpoint import VECTORS, StanzaFiles
from wye.featurizer.constituency.decoder import Decoder
from wye.featurizer.constituency.parser import ConstituencySettings, SyntaxParser, open_decoder
from wye.featurizer.constituency.tree import parse_brackets
from wye.featurizer.encoder import Encoder, EncoderSettings
from wye.featurizer.spacy.parser import SpacyParser
from wye.featurizer.spacy.pipeline import DEFAULT_PIPELINE, Pipeline, load_pipeline
from wye.featurizer.types import Float32, Syntax, Token

LABELS = ("NP", "S", "VP", "ROOT")
WORDS = ("boat", "ferry", "lantern", "row", "the")
TAGS = ("DT", "NN", "VB")
VECTOR, DELTA, TAG, HIDDEN, MOVE, MOVES = 6, 4, 3, 8, 5, 7
Maker = Callable[..., Path]


@pytest.fixture(scope="session")
def encoder() -> Encoder:
    return Encoder(EncoderSettings(dtype="float32", threads=2))


@pytest.fixture(scope="session")
def parser() -> Iterator[SpacyParser]:
    parser = SpacyParser()
    yield parser
    parser.close()


@pytest.fixture(scope="session")
def plain() -> Language:
    return load_pipeline(DEFAULT_PIPELINE)


@pytest.fixture(scope="session")
def fast() -> Pipeline:
    return Pipeline(DEFAULT_PIPELINE)


@pytest.fixture(scope="session")
def trees() -> Decoder:
    return open_decoder(ConstituencySettings())


@pytest.fixture(scope="session")
def questions(parser: SpacyParser, trees: Decoder) -> SyntaxParser:
    return SyntaxParser(parser, trees)


@pytest.fixture
def make_model(tmp_path: Path) -> Maker:
    def make(seed: int = 0, **config: object) -> Path:
        path = tmp_path / f"model-{seed}.safetensors"
        words = ["<PAD>", "<UNK>", "<EMPTY>", "<ROOT>", "boat", "the", "of\xa0course"]
        opens = sorted((label,) for label in LABELS)
        moves = ["Shift", "CloseConstituent", *(f"OpenConstituent({labels!r})" for labels in opens)]
        params = {
            "model_type": "LSTM",
            "config": {**_CONFIG, **config},
            "transitions": moves,
            "constituents": sorted(LABELS),
            "tags": list(TAGS),
            "words": list(WORDS),
            "rare_words": [],
            "root_labels": ["ROOT"],
            "constituent_opens": opens,
            "unary_limit": 2,
        }
        tensors = _tensors(seed, len(words), len(opens), len(moves))
        StanzaFiles({"params": params, **_HISTORY}, tensors, words, True).write(path)
        return path

    return make


def _tensors(seed: int, words: int, opens: int, moves: int) -> dict[str, Float32]:
    random = np.random.default_rng(seed)
    word = VECTOR + DELTA + TAG
    shapes: dict[str, Sequence[int]] = {
        VECTORS: (words, VECTOR),
        "word_start_embedding": (word,),
        "word_end_embedding": (word,),
        "delta_embedding.weight": (len(WORDS) + 2, DELTA),
        "tag_embedding.weight": (len(TAGS) + 2, TAG),
        **_lstm("word_lstm", word, HIDDEN),
        **_lstm("word_lstm", word, HIDDEN, "_reverse"),
        "word_to_constituent.weight": (HIDDEN, 2 * HIDDEN),
        "word_to_constituent.bias": (HIDDEN,),
        "transition_embedding.weight": (moves, MOVE),
        "transition_stack.start_embedding": (MOVE,),
        **_lstm("transition_stack.lstm", MOVE, MOVES),
        "constituent_open_embedding.weight": (opens, HIDDEN),
        "dummy_embedding.weight": (opens, HIDDEN),
        "constituent_stack.start_embedding": (HIDDEN,),
        **_lstm("constituent_stack.lstm", HIDDEN, HIDDEN),
        "reduce_linear.weight": (HIDDEN, HIDDEN),
        "reduce_linear.bias": (HIDDEN,),
        "output_layers.0.weight": (HIDDEN, 2 * HIDDEN + MOVES),
        "output_layers.0.bias": (HIDDEN,),
        "output_layers.1.weight": (moves, HIDDEN),
        "output_layers.1.bias": (moves,),
    }
    return {
        name: np.float32(0.7) * random.standard_normal(shape, np.float32)
        for name, shape in shapes.items()
    }


def _lstm(name: str, inputs: int, hidden: int, suffix: str = "") -> dict[str, Sequence[int]]:
    return {
        f"{name}.weight_ih_l0{suffix}": (4 * hidden, inputs),
        f"{name}.weight_hh_l0{suffix}": (4 * hidden, hidden),
        f"{name}.bias_ih_l0{suffix}": (4 * hidden,),
        f"{name}.bias_hh_l0{suffix}": (4 * hidden,),
    }


_HISTORY: dict[str, object] = {
    **dict.fromkeys(["epochs_trained", "batches_trained", "best_epoch"], 1),
    "best_f1": 0.0,
    "model_type": "LSTM",
    "first_optimizer": False,
    "bert_lora": None,
}
_OFF = ["bert_finetune", "reversed", "stage1_bert_finetune", "use_lattn", "use_rattn"]
_ABSENT = ["bert_model", "charlm_backward_file", "charlm_forward_file", "maxout_k"]
_DROPOUTS = ["lstm_input", "lstm_layer", "predict", "word"]
_CONFIG: dict[str, object] = {
    **dict.fromkeys(_OFF, False),
    **dict.fromkeys(_ABSENT),
    **{f"{name}_dropout": 0.0 for name in _DROPOUTS},
    "bert_hidden_layers": 4,
    "combined_dummy_embedding": True,
    "constituency_composition": "MAX",
    "constituent_stack": "LSTM",
    "delta_embedding_dim": DELTA,
    "hidden_size": HIDDEN,
    "nonlinearity": "relu",
    "num_lstm_layers": 1,
    "num_output_layers": 2,
    "num_tree_lstm_layers": 1,
    "pattn_num_heads": 8,
    "pattn_num_layers": 0,
    "sentence_boundary_vectors": "EVERYTHING",
    "tag_embedding_dim": TAG,
    "transition_embedding_dim": MOVE,
    "transition_hidden_size": MOVES,
    "transition_scheme": "IN_ORDER",
    "transition_stack": "LSTM",
}


@pytest.fixture
def chain() -> Syntax:
    """ "Who is the father of the director of Winter Lantern ?", annotated by hand."""
    return by_hand(
        """
        Who     who     WP  PRON  attr  1
        is      be      VBZ AUX   ROOT  1
        the     the     DT  DET   det   3
        father  father  NN  NOUN  nsubj 1
        of      of      IN  ADP   prep  3
        the     the     DT  DET   det   6
        director director NN NOUN pobj  4
        of      of      IN  ADP   prep  6
        Winter  Winter  NNP PROPN compound 9 WORK_OF_ART
        Lantern Lantern NNP PROPN pobj  7 WORK_OF_ART
        ?       ?       .   PUNCT punct 1
        """,
        "(ROOT (SBARQ (WHNP (WP Who)) (SQ (VP (VBZ is) (NP (NP (DT the) (NN father)) (PP (IN of)"
        " (NP (NP (DT the) (NN director)) (PP (IN of) (NP (NNP Winter) (NNP Lantern))))))))"
        " (. ?)))",
    )


@pytest.fixture
def choice() -> Syntax:
    """ "Which bridge that an engineer built is older, Avon or Tay?", annotated by hand."""
    return by_hand(
        """
        Which    which    WDT DET   det   1
        bridge   bridge   NN  NOUN  nsubj 6
        that     that     WDT PRON  dobj  5
        an       a        DT  DET   det   4
        engineer engineer NN  NOUN  nsubj 5
        built    build    VBD VERB  relcl 1
        is       be       VBZ AUX   ROOT  6
        older    old      JJR ADJ   acomp 6
        ,        ,        ,   PUNCT punct 6
        Avon     Avon     NNP PROPN attr  6 FAC
        or       or       CC  CCONJ cc    9
        Tay      Tay      NNP PROPN conj  9 FAC
        ?        ?        .   PUNCT punct 6
        """,
        "(ROOT (SBARQ (WHNP (NP (WDT Which) (NN bridge)) (SBAR (WHNP (WDT that)) (S (NP (DT an)"
        " (NN engineer)) (VP (VBD built))))) (SQ (VP (VBZ is) (ADJP (JJR older)))) (, ,)"
        " (NP (NNP Avon) (CC or) (NNP Tay)) (. ?)))",
    )


def by_hand(table: str, brackets: str) -> Syntax:
    """One sentence: token, lemma, tag, part of speech, relation, head and, of a name, its label.

    Names that follow each other with the same label are one.
    """
    rows = [line.split() for line in table.strip().splitlines()]
    labels = ["", *(row[6] if len(row) > 6 else "" for row in rows)]
    tokens, start = [], 0
    for position, (text, lemma, tag, pos, dep, head, *_) in enumerate(rows):
        label = labels[position + 1]
        tokens.append(
            Token(
                text=text,
                lemma=lemma,
                tag=tag,
                pos=pos,
                dep=dep,
                head=int(head),
                span=(start, start + len(text)),
                entity=label,
                begins_entity=bool(label) and labels[position] != label,
                is_stop=pos in ("ADP", "DET", "AUX"),
            )
        )
        start += len(text) + 1
    tree = parse_brackets(brackets)
    assert tree.tagged_words() == tuple((token.text, token.tag) for token in tokens)
    return Syntax(tuple(tokens), ((0, len(tokens)),), (tree,))

import logging
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from featurizer.decoder import Decoder
from featurizer.errors import ModelError, ParseError
from featurizer.tree_parser import StanzaParser, open_tree_parser

Maker = Callable[..., tuple[Path, Path]]
SENTENCE = [("The", "DT"), ("boat", "NN"), ("rows", "VB")]


def test_a_model_that_the_decoder_can_run_is_run_by_it(make_model: Maker) -> None:
    assert isinstance(open_tree_parser(*make_model()), Decoder)


@pytest.mark.filterwarnings("ignore")
def test_a_fallback_to_stanza_is_said(make_model: Maker, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("stanza", reason="Stanza is an optional extra")
    with caplog.at_level(logging.WARNING, "featurizer"):
        parser = open_tree_parser(*make_model(3, sentence_boundary_vectors="WORDS"))
    assert isinstance(parser, StanzaParser)
    assert "sentence_boundary_vectors=WORDS" in caplog.text
    assert "Falling back to Stanza" in caplog.text
    with pytest.raises(ParseError):
        parser.parse([])


@pytest.mark.filterwarnings("ignore")
def test_both_parsers_agree_and_know_the_same_model(make_model: Maker) -> None:
    pytest.importorskip("stanza", reason="Stanza is an optional extra")
    files = make_model(4)
    ours, theirs = open_tree_parser(*files), StanzaParser(*files)
    assert ours.digest == theirs.digest
    assert ours.parse(SENTENCE) == theirs.parse(SENTENCE)


def test_without_stanza_the_error_names_the_extra(
    make_model: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "stanza", None)
    monkeypatch.setitem(sys.modules, "stanza.models.constituency.trainer", None)
    with pytest.raises(ModelError, match=r"wye\[stanza\]"):
        open_tree_parser(*make_model(num_lstm_layers=2))

import logging
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from featurizer.constituency.decoder import Decoder
from featurizer.constituency.parser import (
    DEFAULT_MODEL,
    MODELS,
    ConstituencySettings,
    StanzaParser,
    locate,
    open_tree_parser,
)
from featurizer.errors import ModelError, ParseError

Maker = Callable[..., tuple[Path, Path]]
SENTENCE = [("The", "DT"), ("boat", "NN"), ("rows", "VB")]


def test_the_default_is_the_shipped_model() -> None:
    model, vectors = locate(ConstituencySettings())
    assert (model.parent, vectors.parent) == (MODELS / DEFAULT_MODEL,) * 2


def test_a_model_is_found_as_a_folder_as_a_file_and_with_vectors_elsewhere(
    make_model: Maker, tmp_path: Path
) -> None:
    model, vectors = make_model()
    assert locate(ConstituencySettings(str(model))) == (model, vectors)
    assert locate(ConstituencySettings(str(model), str(vectors))) == (model, vectors)
    model.rename(tmp_path / "model.pt")
    assert locate(ConstituencySettings(str(tmp_path))) == (tmp_path / "model.pt", vectors)
    elsewhere = vectors.rename(tmp_path / "other.pt")
    settings = ConstituencySettings(str(tmp_path), str(elsewhere))
    assert locate(settings) == (tmp_path / "model.pt", elsewhere)


@pytest.mark.parametrize("name", ["none", "/none/at/all", "none/model.pt"])
def test_a_missing_model_is_named_with_a_way_out(name: str) -> None:
    with pytest.raises(ModelError, match=rf"'{name}' lacks .*WYE_ANALYSER__CONSTITUENCY__MODEL"):
        locate(ConstituencySettings(name))


def test_missing_word_vectors_are_named(make_model: Maker) -> None:
    model, vectors = make_model()
    vectors.unlink()
    with pytest.raises(ModelError, match=r"vectors\.pt.*WYE_ANALYSER__CONSTITUENCY__VECTORS"):
        locate(ConstituencySettings(str(model)))


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
    assert ours.parse_many([SENTENCE, []]) == theirs.parse_many([SENTENCE, []])


def test_without_stanza_the_error_names_the_extra(
    make_model: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "stanza", None)
    monkeypatch.setitem(sys.modules, "stanza.models.constituency.trainer", None)
    with pytest.raises(ModelError, match=r"wye\[stanza\]"):
        open_tree_parser(*make_model(num_lstm_layers=2))

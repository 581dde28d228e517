"""Our trees beside those of Stanza's own parser: `make test-stanza`."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from wye.featurizer.constituency.checkpoint import VECTORS, read_safetensors
from wye.featurizer.constituency.decoder import Decoder, TaggedWords
from wye.featurizer.constituency.parser import ConstituencySettings, locate
from wye.featurizer.constituency.tree import Tree, parse_brackets
from wye.training.constituency import save_vectors

pytest.importorskip("stanza", reason="Stanza is an optional extra: make test-stanza")

pytestmark = pytest.mark.filterwarnings("ignore")
GOLDEN = Path(__file__).parents[1] / "parsed_questions.jsonl"


def to_stanza(model: Path, folder: Path) -> tuple[Path, Path]:
    """Convert a model to the two files that Stanza loads, of weights and of word vectors."""
    files = read_safetensors(model)
    tensors = {name: torch.tensor(values) for name, values in files.tensors.items()}
    del tensors[VECTORS]
    params = {**files.content["params"], "model": tensors}
    # JSON has no tuples.
    params["constituent_opens"] = [tuple(labels) for labels in params["constituent_opens"]]
    weights, vectors = folder / "model.pt", folder / "vectors.pt"
    torch.save({**files.content, "params": params}, weights)
    save_vectors(files.words, files.tensors[VECTORS], vectors, lower=files.lower)
    return weights, vectors


def from_stanza(tree: Any) -> Tree:  # noqa: ANN401 - Stanza has no types
    return Tree(tree.label, tuple(from_stanza(child) for child in tree.children))


def trees_of_stanza(model: Path, folder: Path, sentences: Sequence[TaggedWords]) -> list[Tree]:
    from stanza.models.constituency.trainer import Trainer  # noqa: PLC0415

    weights, vectors = to_stanza(model, folder)
    args = {"wordvec_pretrain_file": str(vectors), "device": "cpu"}
    parse = Trainer.load(str(weights), args=args).model.parse_tagged_words
    return [from_stanza(parse([list(words)], 1)[0]) for words in sentences]


@pytest.mark.parametrize("seed", range(12))
def test_random_models_give_stanzas_trees(
    make_model: Callable[..., Path], tmp_path: Path, seed: int
) -> None:
    model = make_model(seed, combined_dummy_embedding=seed > 5)
    sentences = [
        [("The", "DT"), ("boat", "NN"), ("(", "XX"), ("of course", "NN")],
        [("ferry", "NN")],
        [("the", "DT"), ("Boat", "VB"), ("rows", "VB"), ("a", "DT"), ("lantern", "NN"), ("?", ".")],
    ]
    ours = [*map(Decoder.read(model).parse, sentences)]
    assert ours == trees_of_stanza(model, tmp_path, sentences)


def test_the_shipped_model_gives_stanzas_trees(tmp_path: Path) -> None:
    shipped = locate(ConstituencySettings())
    lines = GOLDEN.read_text(encoding="utf-8").splitlines()[1:]
    words = [parse_brackets(json.loads(line)["tree"]).tagged_words() for line in lines]
    ours = [*map(Decoder.read(shipped).parse, words)]
    assert ours == trees_of_stanza(shipped, tmp_path, words)

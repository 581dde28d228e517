import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from featurizer.constituency.stanza_checkpoint import read_checkpoint
from featurizer.errors import ModelError, UnsupportedModelError

Maker = Callable[..., tuple[Path, Path]]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("transition_scheme", "TOP_DOWN"),
        ("constituency_composition", "BILSTM"),
        ("bert_model", "some/encoder"),
        ("charlm_forward_file", "forward.pt"),
        ("num_lstm_layers", 2),
        ("sentence_boundary_vectors", "NONE"),
        ("pattn_num_layers", 3),
        ("nonlinearity", "gelu"),
        ("reversed", True),
        ("maxout_k", 2),
        ("use_rattn", True),
    ],
)
def test_what_only_stanza_can_run_is_named(make_model: Maker, key: str, value: object) -> None:
    with pytest.raises(UnsupportedModelError, match=f"{key}={value}.*Stanza can"):
        read_checkpoint(*make_model(**{key: value}))


def test_missing_and_foreign_files_are_model_errors(make_model: Maker, tmp_path: Path) -> None:
    model, vectors = make_model()
    with pytest.raises(ModelError, match="No constituency model file"):
        read_checkpoint(tmp_path / "none.pt", vectors)
    (tmp_path / "text.pt").write_text("no weights")
    with pytest.raises(ModelError, match="cannot be read"):
        read_checkpoint(tmp_path / "text.pt", vectors)
    with pytest.raises(ModelError, match="is no Stanza constituency model"):
        read_checkpoint(vectors, model)


def test_the_digest_names_the_files(make_model: Maker) -> None:
    first, again, other = (read_checkpoint(*make_model(seed)).digest for seed in (0, 0, 1))
    assert first == again != other


def test_decoding_imports_neither_stanza_nor_what_it_brings(make_model: Maker) -> None:
    model, vectors = make_model()
    code = (
        "import sys; from pathlib import Path; from featurizer.constituency.stanza_checkpoint "
        "import read_checkpoint;"
        "from featurizer.constituency.decoder import Decoder;"
        f"Decoder(read_checkpoint(Path({str(model)!r}), Path({str(vectors)!r})));"
        "print([m for m in ('stanza', 'udapi', 'udtools') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

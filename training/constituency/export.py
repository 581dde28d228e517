"""From the trainer's checkpoint to the files that ship."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

# Addresses, handles and telephone numbers of the treebank's texts have no place in a vocabulary.
_PERSONAL = re.compile(r"@|^#\w|://|www\.|(?:\d\D?){7}")


def export(checkpoint: Path, out: Path) -> None:
    """Write a checkpoint without this machine's paths, training state or personal words.

    Args:
        checkpoint: As Stanza's trainer saved it.
        out: The file to write; Stanza and the decoder read it.
    """
    content = torch.load(checkpoint, map_location="cpu", weights_only=True)
    params = content["params"]
    _drop_words(params)
    # Only training replaces rare words.
    params["rare_words"] = []
    params["config"] = _without_paths(params["config"])
    torch.save(content, out)


def _drop_words(params: dict[str, Any]) -> None:
    words = params["words"]
    kept = [place for place, word in enumerate(words) if not _PERSONAL.search(word)]
    # Two reserved rows come first.
    rows = torch.tensor([0, 1, *(place + 2 for place in kept)])
    weights = params["model"]
    weights["delta_embedding.weight"] = weights["delta_embedding.weight"][rows].clone()
    weights["delta_tensors"] = torch.arange(len(rows))
    params["words"] = [words[place] for place in kept]


def _without_paths(config: Mapping[str, Any]) -> dict[str, Any]:
    clean = {
        key: Path(value).name if isinstance(value, str) and "/" in value else value
        for key, value in config.items()
    }
    clean["save_dir"] = clean["data_dir"] = clean["wordvec_dir"] = ""
    return clean

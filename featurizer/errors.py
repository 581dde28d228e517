"""The errors of the featurizer and their base class."""


class FeaturizerError(Exception):
    """An error about a text, a parser or an encoder that the user can correct."""


class ModelError(FeaturizerError):
    """A spaCy pipeline or an encoder is missing, damaged or not the expected one."""


class TreeError(FeaturizerError):
    """A bracket string does not describe a tree."""


class UnsupportedModelError(ModelError):
    """Our own code cannot run a model, but the library that made it can."""


EXTRAS = {
    **dict.fromkeys(("lance_ray", "ray"), "ray"),
    "stanza": "stanza",
    **dict.fromkeys(("ir_measures", "joblib", "matplotlib", "psutil", "sklearn", "torch"), "train"),
}
"""Modules that Wye runs without, and the extra of its package that brings each."""


def how_to_install(extra: str) -> str:
    """How to install an extra of Wye, for the end of an error; no registry has the package."""
    return (
        f"run `pip install -e '.[{extra}]'` in the checkout of Wye, or `pip install "
        f"'WHEEL[{extra}]'` with the path of its wheel"
    )

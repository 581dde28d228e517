"""The errors of the featurizer and their base class."""


class FeaturizerError(Exception):
    """An error about a text, a parser or an encoder that the user can correct."""


class ModelError(FeaturizerError):
    """A spaCy pipeline or an encoder is missing, damaged or not the expected one."""


class TreeError(FeaturizerError):
    """A bracket string does not describe a tree."""


class UnsupportedModelError(ModelError):
    """Our own code cannot run a model, but the library that made it can."""


def how_to_install(extra: str) -> str:
    """How to install an extra of Wye, for the end of an error; no registry has the package."""
    return f"run `.venv/bin/pip install -e '.[{extra}]'` in the checkout of Wye"

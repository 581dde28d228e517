"""The errors of the featurizer and their base class."""


class FeaturizerError(Exception):
    """An error about a text, a parser or an encoder that the user can correct."""


class ModelError(FeaturizerError):
    """A spaCy pipeline or an encoder is missing, damaged or not the expected one."""


class TreeError(FeaturizerError):
    """A bracket string does not describe a tree."""


class UnsupportedModelError(ModelError):
    """Our own code cannot run a model, but the library that made it can."""

"""The one base error of this folder, and its kinds."""


class FeaturizerError(Exception):
    """Something about a text, a parser or an encoder that the user can put right."""


class ModelError(FeaturizerError):
    """A spaCy pipeline or an encoder is missing, damaged or not the one that was asked for."""


class TreeError(FeaturizerError):
    """A bracket string that describes no tree."""


class UnsupportedModelError(ModelError):
    """A model that our own code cannot run but the library that made it can."""


class ParseError(FeaturizerError):
    """A sentence for which the constituency model finds no tree."""

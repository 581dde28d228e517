"""The one base error of this folder, and its kinds."""


class RouterError(Exception):
    """Something about a question, a setting or a fusion that the caller can put right."""


class FusionError(RouterError):
    """Lists that cannot be fused, or weights that do not fit them."""


class QuestionError(RouterError):
    """A question without words, or a number of hits that makes no sense."""


class SettingsError(RouterError, ValueError):
    """A setting with a value it cannot have, or a variable that names no setting."""


class JournalError(RouterError):
    """A request log that cannot be written or read."""

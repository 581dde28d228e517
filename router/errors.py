"""The one base error of this folder, and its kinds."""


class RouterError(Exception):
    """Something about a question, a setting or a fusion that the caller can put right."""


class FusionError(RouterError):
    """Lists that cannot be fused, or weights that do not fit them."""


class QuestionError(RouterError):
    """A question without words, or a number of hits that makes no sense."""


class SettingsError(RouterError, ValueError):
    """A setting with a value it cannot have, or a variable that names no setting."""


class RequestLogError(RouterError):
    """A request log that cannot be written or read."""


class ShardError(RouterError):
    """A shard of an index that does not answer, or something that shards cannot do."""


class PolicyError(RouterError, ValueError):
    """Thresholds out of order, a score that is none, or a budget that nothing can be held to."""


class FeatureError(RouterError):
    """A feature matrix of the wrong width, or with a value that is no number."""


class ModelFileError(RouterError):
    """A router model that is missing, damaged, or made for another build."""


class RerankerError(RouterError):
    """An endpoint that should score texts and does not."""

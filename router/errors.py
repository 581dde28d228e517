"""The router's errors."""


class RouterError(Exception):
    """Base of these errors: something about a request or a setting that the caller can correct."""


class FusionError(RouterError):
    """Lists that cannot be fused, or weights that do not fit them."""


class QuestionError(RouterError):
    """A question without words, or a request that no route can answer."""


class SettingsError(RouterError, ValueError):
    """A setting with an invalid value, or a variable that names no setting."""


class RequestLogError(RouterError):
    """A request log that cannot be written."""


class PolicyError(RouterError, ValueError):
    """Thresholds out of order, or a score out of range."""


class FeatureError(RouterError):
    """A feature matrix of the wrong width, or with a value that is not finite."""


class ModelFileError(RouterError):
    """A router model that is missing, damaged, or made for another build."""


class RerankerError(RouterError):
    """A reranker endpoint that does not return scores."""

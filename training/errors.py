"""Errors of training and evaluation."""


class TrainingError(Exception):
    """Base class: a problem with a dataset, a run or an evaluation that the user can fix."""


class DatasetError(TrainingError):
    """A folder is not a BEIR dataset, or one of its lines cannot be read."""


class EvaluationError(TrainingError):
    """An evaluation cannot be computed as asked."""


class FitError(TrainingError):
    """Nothing can be learned from the questions, or with the settings."""


class SplitError(TrainingError):
    """A split may not be read here."""


class EndpointError(TrainingError):
    """An endpoint does not answer."""

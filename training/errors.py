"""The one base error of this folder, and its kinds."""


class TrainingError(Exception):
    """Something about a dataset, a run or an evaluation that the user can put right."""


class DatasetError(TrainingError):
    """A folder that is no BEIR dataset, or a line of it that cannot be read."""


class EvaluationError(TrainingError):
    """An evaluation that cannot be computed as asked."""


class FitError(TrainingError):
    """Questions that nothing can be learned from, or settings that cannot be trained with."""


class ReplayError(TrainingError):
    """A replay that is missing, damaged or of another schema."""


class SplitError(TrainingError):
    """A split that may not be read where it was asked for."""


class JudgeError(TrainingError):
    """An endpoint that does not answer, or questions that it cannot be compared on."""


class LogError(TrainingError):
    """A request log with nothing to go by, or with too little for what was asked."""

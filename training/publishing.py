"""A trained router becomes a version of a model, with its card and its report."""

import platform
import shlex
import sys
from importlib.metadata import version
from pathlib import Path

from featurizer.constituency.parser import open_syntax_parser
from router.model_files import Draft, save
from router.query_performance import NAMES, schema_id
from router.settings import Settings
from training.card import card
from training.report import Report, make_report, write_report
from training.run import HeldOutEvaluation, Learned, Run

_PACKAGES = ("wye", "numpy", "scikit-learn", "torch", "spacy", "faiss-cpu", "pylance")


def publish(
    run: Run, learned: Learned, verdict: HeldOutEvaluation | None, models: Path, name: str
) -> tuple[Path, Report]:
    """Write a version of a router, and its report beside it.

    Args:
        run: That trained it.
        learned: From train and dev.
        verdict: From test; None where there is none.
        models: Folder of all models.
        name: Of the model.

    Returns:
        The version's folder, and what the report says.

    Raises:
        ModelFileError: A name that cannot be a folder.
    """
    schema = schema_of(run.settings)
    report = make_report(
        learned,
        verdict,
        title=name,
        schema_id=schema,
        command=command_line(sys.argv),
        seconds=run.clock.seconds,
        versions=versions(),
    )
    fitted = learned.fitted
    choices = fitted.choices
    folder = save(
        models,
        name,
        Draft(
            scorer=fitted.scorer,
            policy=fitted.policy,
            schema_id=schema,
            card=card(name, report),
            training={
                "command": report.command,
                "success": choices.success,
                "kind": fitted.trained.recipe.kind,
                "questions": len(learned.material),
                "disagreements": int((learned.labels >= 0).sum()),
                "features computed": len(NAMES),
                "versions": report.versions,
            },
            notes={
                "quality": choices.quality,
                "objective": fitted.solution.outcome.quality,
                "best pair": [fitted.solution.best.low, fitted.solution.best.high],
                "plateau": fitted.solution.plateau,
            },
        ),
    )
    write_report(folder / "report", report)
    return folder, report


def schema_of(settings: Settings) -> str:
    """Of the features that these settings give."""
    own = settings.analyser
    return schema_id(open_syntax_parser(own.pipeline, own.constituency).fingerprint)


def command_line(arguments: list[str]) -> str:
    """What was typed, without the path of the program."""
    return shlex.join([Path(arguments[0]).name, *arguments[1:]])


def versions() -> dict[str, str]:
    """Of Python and of the packages that take part."""
    return {"python": platform.python_version()} | {name: version(name) for name in _PACKAGES}

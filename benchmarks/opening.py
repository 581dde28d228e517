"""From a folder to a first answer: seconds to open an index and build each arm, models apart.

python -m benchmarks.opening INDEX [--rounds 5]
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import numpy as np

from backends.errors import BackendError
from backends.store.index import Index
from benchmarks.report import Table, parser, print_header
from featurizer.errors import FeaturizerError
from router.adapters import Questions
from router.gateway import Gateway
from router.session import Session, Snapshot
from router.settings import Settings, load_settings
from router.types import Route

QUESTION = "Which river flows through the town where the engineer of the bridge was born?"


def open_once(settings: Settings, folder: Path, questions: Questions) -> dict[str, float]:
    """Seconds to open an index and to answer a first question over each route in turn.

    Later routes find what earlier ones have built: the graph arm uses BM25 in its prior.

    Args:
        settings: Of the arms.
        folder: Of the index.
        questions: Loaded models.
    """
    seconds: dict[str, float] = {}
    start = perf_counter()
    snapshot = Snapshot(Index.open(folder), settings)
    seconds["read the version"] = perf_counter() - start
    gateway = Gateway(lambda: snapshot, lambda: questions, settings.fusion)
    for route in (Route.DENSE, Route.LEXICAL, Route.GRAPH):
        before = perf_counter()
        gateway.search([QUESTION], route, k=5)
        seconds[f"first answer, {route}"] = perf_counter() - before
    seconds["all of it"] = perf_counter() - start
    return seconds


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table.

    Returns:
        0, or 2 for an index that cannot be opened.
    """
    options = parser(__doc__)
    options.add_argument("index", type=Path, help="folder of an index")
    options.add_argument("--rounds", type=int, default=5, help="how often (default 5)")
    given = options.parse_args(argv)
    settings = load_settings()
    try:
        container = Session.open(settings, given.index)
        questions = Questions(container.analyser)
    except (BackendError, FeaturizerError) as error:
        print(error, file=sys.stderr)
        return 2
    data = f"{given.index.name}, {container.index.count():,} passages"
    print_header("Opening an index (models loaded before)", seed=None, data=data)
    gateway = Gateway(lambda: container.snapshot, lambda: questions, settings.fusion)
    gateway.search([QUESTION], Route.DENSE, k=5)  # the models' own first run is not the index's
    rounds = [open_once(settings, given.index, questions) for _ in range(given.rounds)]
    table = Table(["seconds", "min", "median", "max"], width=26)
    for stage in rounds[0]:
        own = np.array([seconds[stage] for seconds in rounds])
        table.row(stage, float(own.min()), float(np.median(own)), float(own.max()))
    container.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

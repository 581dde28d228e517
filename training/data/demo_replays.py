"""Replays of the demo corpus, for whoever has none of their own yet."""

from importlib.resources import as_file, files
from pathlib import Path

from backends.documents import read_passages
from router.session import Session
from router.settings import Settings, load_settings
from training.data.dataset import read_dataset
from training.data.replay import TRAINING_SPLITS
from training.data.replaying import replay_dataset


def replay_demo(folder: Path, settings: Settings | None = None) -> list[Path]:
    """Index the demo corpus, and ask it the questions of its train and dev splits.

    Args:
        folder: For the index and the replays; what is there already is used again.
        settings: Of models and arms; None reads the environment.

    Returns:
        The replay files, dev first.
    """
    own = settings or load_settings()
    index = folder / "index"
    with as_file(files("service") / "demo") as corpus:
        with Session.create(own, index) as session:
            session.ingest(read_passages(corpus))
        with Session.open(own, index) as session:
            return [
                replay_dataset(session, read_dataset(corpus, split), folder / "replays")
                for split in sorted(TRAINING_SPLITS)
            ]

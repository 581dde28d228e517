"""Builds the technical benchmark: `python -m benchmarks.technical.build OUT_DIR`.

The corpus is the prose of the docstrings that installed packages ship; the questions and
the judgements stand beside this file. The output is in BEIR layout: corpus.jsonl,
queries.jsonl, qrels/dev.tsv and qrels/test.tsv. Nothing is downloaded, and the same package
versions give the same bytes.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import inspect
import json
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.technical.prose import paragraphs, sentences, word_count

DATA = Path(__file__).parent
"""Where queries.jsonl and qrels/ are kept under version control."""

SPLITS = ("dev", "test")
"""The splits that have judgements."""

JUDGED_VERSIONS = {"scikit-learn": "1.9.1", "scipy": "1.17.1"}
"""The versions that the judgements were made against, by distribution."""

MIN_WORDS = 40
"""A passage with fewer words is merged into the one before it, or skipped."""

MAX_WORDS = 180
"""A passage is closed before it would pass this many words."""

MAX_REPEATS = 3
"""A paragraph that more objects than this share is boilerplate and is dropped."""


class BuildError(RuntimeError):
    """The benchmark cannot be built; the message says why and what to do."""


@dataclass(frozen=True)
class Source:
    """A distribution and the public modules of it that are read, in order."""

    distribution: str
    modules: tuple[str, ...]
    enable: tuple[str, ...] = ()
    """Modules to import first because they switch public names on."""


@dataclass(frozen=True)
class Documented:
    """A public object and the paragraphs of prose in its docstring."""

    name: str
    kind: str
    distribution: str
    version: str
    paragraphs: tuple[str, ...]


@dataclass(frozen=True)
class Passage:
    """One row of the corpus."""

    id: str
    title: str
    text: str
    metadata: dict[str, str]

    def as_row(self) -> dict[str, object]:
        """Gives the row as BEIR names its fields."""
        return {"_id": self.id, "title": self.title, "text": self.text, "metadata": self.metadata}


SOURCES = (
    Source(
        "scipy",
        (
            "scipy.cluster.hierarchy",
            "scipy.cluster.vq",
            "scipy.differentiate",
            "scipy.integrate",
            "scipy.interpolate",
            "scipy.linalg",
            "scipy.ndimage",
            "scipy.optimize",
            "scipy.signal",
            "scipy.sparse",
            "scipy.sparse.csgraph",
            "scipy.sparse.linalg",
            "scipy.spatial",
        ),
    ),
    Source(
        "scikit-learn",
        (
            "sklearn.base",
            "sklearn.calibration",
            "sklearn.cluster",
            "sklearn.compose",
            "sklearn.covariance",
            "sklearn.cross_decomposition",
            "sklearn.decomposition",
            "sklearn.discriminant_analysis",
            "sklearn.dummy",
            "sklearn.ensemble",
            "sklearn.feature_extraction",
            "sklearn.feature_extraction.image",
            "sklearn.feature_extraction.text",
            "sklearn.feature_selection",
            "sklearn.frozen",
            "sklearn.gaussian_process",
            "sklearn.gaussian_process.kernels",
            "sklearn.impute",
            "sklearn.inspection",
            "sklearn.isotonic",
            "sklearn.kernel_approximation",
            "sklearn.kernel_ridge",
            "sklearn.linear_model",
            "sklearn.manifold",
            "sklearn.metrics",
            "sklearn.metrics.cluster",
            "sklearn.metrics.pairwise",
            "sklearn.mixture",
            "sklearn.model_selection",
            "sklearn.multiclass",
            "sklearn.multioutput",
            "sklearn.naive_bayes",
            "sklearn.neighbors",
            "sklearn.neural_network",
            "sklearn.pipeline",
            "sklearn.preprocessing",
            "sklearn.random_projection",
            "sklearn.semi_supervised",
            "sklearn.svm",
            "sklearn.tree",
        ),
        enable=(
            "sklearn.experimental.enable_halving_search_cv",
            "sklearn.experimental.enable_iterative_imputer",
        ),
    ),
)


def build(out_dir: Path) -> dict[str, int]:
    """Writes the benchmark into `out_dir` and gives the counts of what it wrote.

    Raises:
        BuildError: a package is missing or ships no docstrings, or a judgement names a
            passage that the corpus does not hold.
    """
    passages = build_corpus()
    check_judgements({passage.id for passage in passages}, DATA)
    (out_dir / "qrels").mkdir(parents=True, exist_ok=True)
    write_corpus(passages, out_dir / "corpus.jsonl")
    shutil.copyfile(DATA / "queries.jsonl", out_dir / "queries.jsonl")
    for split in SPLITS:
        shutil.copyfile(DATA / "qrels" / f"{split}.tsv", out_dir / "qrels" / f"{split}.tsv")
    counts = {split: len(read_qrels(DATA / "qrels" / f"{split}.tsv")) for split in SPLITS}
    return {"passages": len(passages), **counts}


def build_corpus(sources: Sequence[Source] = SOURCES) -> list[Passage]:
    """Reads every source and gives its passages sorted by object, then by chunk."""
    if sys.flags.optimize > 1:
        raise BuildError("Python was started with -OO, which drops the docstrings")
    documented = [item for source in sources for item in read_source(source)]
    kept = drop_boilerplate(sorted(documented, key=lambda item: item.name))
    return [passage for item in kept for passage in passages_of(item)]


def read_source(source: Source) -> Iterator[Documented]:
    """Yields each documented public object of a source once, under its first name."""
    version = installed_version(source.distribution)
    for name in source.enable:
        import_module(name, source.distribution)
    seen: set[int] = set()
    for module_name in source.modules:
        module = import_module(module_name, source.distribution)
        for name, value in public_objects(module):
            if id(value) in seen:
                continue
            seen.add(id(value))
            kind = "class" if inspect.isclass(value) else "function"
            prose = tuple(paragraphs(value.__doc__))
            yield Documented(f"{module_name}.{name}", kind, source.distribution, version, prose)


def installed_version(distribution: str) -> str:
    """Gives the installed version of a distribution."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError as error:
        raise BuildError(missing_package(distribution)) from error


def import_module(name: str, distribution: str) -> ModuleType:
    """Imports a module of a distribution."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise BuildError(f"cannot import {name}: {missing_package(distribution)}") from error


def missing_package(distribution: str) -> str:
    """Says which package to install, and in which version where one is known."""
    version = JUDGED_VERSIONS.get(distribution)
    pin = f"{distribution}=={version}" if version else distribution
    return f"the technical corpus needs {distribution}; install it with: pip install {pin}"


def public_objects(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yields the documented public classes and functions of a module, sorted by name."""
    for name in sorted(public_names(module)):
        value = getattr(module, name, None)
        if is_documented(value):
            yield name, value


def public_names(module: ModuleType) -> list[str]:
    """Gives a module's `__all__`, or else the public names that it defines itself."""
    declared = getattr(module, "__all__", None)
    if declared is not None:
        return [str(name) for name in declared if not str(name).startswith("_")]
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def is_documented(value: object) -> bool:
    """Tells whether a value is a class or a function with a docstring of its own."""
    if inspect.ismodule(value) or not callable(value):
        return False
    if not inspect.isclass(value) and type(value).__module__.startswith("scipy.stats"):
        return False  # A distribution: an instance whose docstring is a filled-in template.
    doc = getattr(value, "__doc__", None)
    return isinstance(doc, str) and (inspect.isclass(value) or doc != type(value).__doc__)


def drop_boilerplate(documented: list[Documented]) -> list[Documented]:
    """Leaves out the paragraphs that more than MAX_REPEATS objects share, own names aside."""
    uses = Counter(key for item in documented for key in {*boilerplate_keys(item)})
    return [
        replace(
            item,
            paragraphs=tuple(
                text
                for text, key in zip(item.paragraphs, boilerplate_keys(item), strict=True)
                if uses[key] <= MAX_REPEATS
            ),
        )
        for item in documented
    ]


def boilerplate_keys(item: Documented) -> list[str]:
    """Gives each paragraph with the object's own name blanked out, to compare it by."""
    own = re.compile(rf"\b{re.escape(item.name.rsplit('.', 1)[-1])}\b")
    return [own.sub("_", text) for text in item.paragraphs]


def passages_of(item: Documented) -> Iterator[Passage]:
    """Yields an object's passages: its name is the first id, "#2" marks the second one."""
    metadata = {"package": item.distribution, "version": item.version, "kind": item.kind}
    for number, text in enumerate(chunks(item.paragraphs), start=1):
        suffix = "" if number == 1 else f"#{number}"
        yield Passage(item.name + suffix, item.name, text, metadata)


def chunks(texts: Sequence[str]) -> list[str]:
    """Packs paragraphs into chunks of MIN_WORDS to about MAX_WORDS words."""
    packed: list[str] = []
    for piece in (piece for text in texts for piece in pieces(text)):
        if packed and fits(packed[-1], piece):
            packed[-1] = f"{packed[-1]}\n{piece}"
        else:
            packed.append(piece)
    if len(packed) > 1 and word_count(packed[-1]) < MIN_WORDS:
        packed[-2:] = ["\n".join(packed[-2:])]
    return [text for text in packed if word_count(text) >= MIN_WORDS]


def fits(chunk: str, piece: str) -> bool:
    """Tells whether a piece joins a chunk: the chunk is short, or there is room left."""
    words = word_count(chunk)
    return words < MIN_WORDS or words + word_count(piece) <= MAX_WORDS


def pieces(text: str) -> list[str]:
    """Splits a paragraph that is too long for one chunk at the ends of its sentences."""
    if word_count(text) <= MAX_WORDS:
        return [text]
    out: list[str] = []
    for sentence in sentences(text):
        if out and word_count(out[-1]) + word_count(sentence) <= MAX_WORDS:
            out[-1] = f"{out[-1]} {sentence}"
        else:
            out.append(sentence)
    return out


def check_judgements(known: set[str], data: Path) -> None:
    """Checks that judgements name known passages and that every question has some."""
    questions = read_query_ids(data / "queries.jsonl")
    judged: set[str] = set()
    for split in SPLITS:
        qrels = read_qrels(data / "qrels" / f"{split}.tsv")
        check_known(qrels, known, split)
        judged |= set(qrels)
    if judged != questions:
        odd = ", ".join(sorted(judged ^ questions))
        raise BuildError(f"questions and judgements do not name the same ids: {odd}")


def check_known(qrels: dict[str, dict[str, int]], known: set[str], split: str) -> None:
    """Raises where a judged passage is not in the corpus."""
    missing = sorted({doc for docs in qrels.values() for doc in docs if doc not in known})
    if missing:
        raise BuildError(
            f"qrels/{split}.tsv judges {len(missing)} passage(s) that the corpus built does not "
            f"hold: {', '.join(missing)}. {versions_note()}"
        )


def versions_match() -> bool:
    """Tells whether the installed versions are the ones that were judged."""
    return all(installed_version(name) == version for name, version in JUDGED_VERSIONS.items())


def versions_note() -> str:
    """Says which versions are installed and which the judgements were made against."""
    installed = ", ".join(f"{name} {installed_version(name)}" for name in sorted(JUDGED_VERSIONS))
    judged = ", ".join(f"{name} {version}" for name, version in sorted(JUDGED_VERSIONS.items()))
    return f"Judged against {judged}; installed: {installed}."


def read_query_ids(path: Path) -> set[str]:
    """Reads the ids of a BEIR queries file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {str(json.loads(line)["_id"]) for line in lines if line.strip()}


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Reads a BEIR judgement file: question id to passage id to score."""
    qrels: dict[str, dict[str, int]] = {}
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        query_id, passage_id, score = line.split("\t")
        qrels.setdefault(query_id, {})[passage_id] = int(score)
    return qrels


def write_corpus(passages: Sequence[Passage], path: Path) -> None:
    """Writes the passages as JSON lines."""
    with path.open("w", encoding="utf-8", newline="\n") as handle:
        for passage in passages:
            handle.write(json.dumps(passage.as_row(), ensure_ascii=False) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Builds the benchmark from the command line."""
    parser = argparse.ArgumentParser(description="Builds the technical benchmark.")
    parser.add_argument("out_dir", type=Path, help="the directory to write the benchmark into")
    try:
        counts = build(parser.parse_args(argv).out_dir)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if not versions_match():
        print(f"warning: {versions_note()} Check the judgements.", file=sys.stderr)
    print(", ".join(f"{name}: {count}" for name, count in counts.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

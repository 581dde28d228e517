"""The syntax of questions in bounded time.

- The first `spacy_parser.QUESTION_CHARACTERS` characters of a question are parsed, and of those the
  first `spacy_parser.QUESTION_TOKENS` tokens.
- A sentence of more than `SENTENCE_TOKENS` tokens gets a flat tree, and so does one for which the
  model finds none: (ROOT (X (tag word) …)), which has no clause and no phrase but X.
- A text without a word or mark (empty, or only whitespace) has no sentence and no tree.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wye.featurizer.constituency.decoder import Decoder
from wye.featurizer.constituency.tree import Tree, flat_tree
from wye.featurizer.errors import ModelError
from wye.featurizer.spacy.parser import SpacyParser
from wye.featurizer.types import Parse, Syntax, Token

DEFAULT_MODEL = "constituency-en-gum"
MODEL_FILE = "model.safetensors"
# The repository's folder of models: Wye runs from a checkout.
MODELS = Path(__file__).resolve().parents[2] / "models"
# Raise this when a change here or in `spacy_parser` alters the syntax of any question.
SYNTAX_VERSION = "1"
SENTENCE_TOKENS = 80  # twice the longest sentence that the shipped model saw in training


@dataclass(frozen=True, slots=True)
class ConstituencySettings:
    """Which constituency model.

    Attributes:
        model: Name of a model in this repository's folder `models`, or the path of a safetensors
            file or of a folder with model.safetensors.
    """

    model: str = DEFAULT_MODEL


def locate(settings: ConstituencySettings) -> Path:
    """The file of a model; a `ModelError` if it is missing."""
    path = Path(settings.model)
    if settings.model == path.name and not path.exists():
        path = MODELS / settings.model
    file = path / MODEL_FILE if path.is_dir() else path
    if not file.is_file():
        raise ModelError(
            f"The constituency model '{settings.model}' has no file {file}. Nothing is downloaded: "
            f"run from a checkout that has {MODELS / DEFAULT_MODEL}, or point "
            "WYE_ANALYSER__CONSTITUENCY__MODEL at a file that wye.training.constituency wrote."
        )
    return file


def open_decoder(settings: ConstituencySettings) -> Decoder:
    """Load a model; a `ModelError` if it is missing or damaged, or has another architecture."""
    return Decoder.read(locate(settings))


class SyntaxParser:
    """A spaCy pipeline and a constituency model as one parser of questions."""

    def __init__(self, parser: SpacyParser, trees: Decoder) -> None:
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
        """As `parse`, given the parses with their tokens."""
        return [*map(self._syntax, parses)]

    def _syntax(self, parse: Parse) -> Syntax:
        trees = (self._tree(parse.tokens[start:end]) for start, end in parse.token_sentences)
        return Syntax(parse.tokens, parse.token_sentences, tuple(trees))

    def _tree(self, tokens: Sequence[Token]) -> Tree:
        words = [(token.text, token.tag) for token in tokens]
        tree = self._trees.parse(words) if len(words) <= SENTENCE_TOKENS else None
        return tree or flat_tree(words)

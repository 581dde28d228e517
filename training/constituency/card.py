"""A model's card and manifest, written from what was measured."""

import hashlib
import importlib.metadata
import json
from dataclasses import asdict
from pathlib import Path

from training.constituency.judge import MODEL, VECTORS, Judgement
from training.constituency.recipe import Recipe

_CARD = """\
# Constituency parser for English questions: {name}

Stanza-format checkpoint (in-order shift-reduce, one LSTM layer, no transformer) with its word
vectors. `featurizer.constituency.decoder` runs it in numpy; Stanza itself can load the same files.

| set | sentences | precision | recall | bracket F1 | exact |
|---|---|---|---|---|---|
{rows}

Labelled brackets as EVALB counts them: the root and punctuation left out. The parser saw tags of
{tagger} on the treebank's tokens; gold tags only told what punctuation is. The
treebank's own trees are parser output from gold tags, so F1 is agreement with that parser.
Only dev was used to choose (the epoch); test and the held-out questions, whose texts are not in the
training data, were only scored.

- Size: {megabytes:.1f} MB (`{model}` and `{vectors}`, vectors in float16).
- Loading: {load:.2f} s, PyTorch already imported. Parsing a question of 6 to 14 words: {ms:.1f} ms
  (median, one thread, on the machine that trained the model).

## Data and licences

- Trees: GUM (Georgetown University Multilayer corpus), official training split, documents of the
  genres academic, bio, court, interview, news, voyage, speech, textbook and vlog, whose texts are
  open; sentences of at most {most_words} words. Annotations CC BY 4.0; the texts of bio and voyage
  CC BY-SA. A. Zeldes, "The GUM Corpus: Creating Multilayer Resources in the Classroom", Language
  Resources and Evaluation 51(3), 2017.
- {made} questions made by rule (`training/constituency/questions.py`), whose slots hold short noun
  phrases of the training split; every question of the split again as people type it.
- Word vectors: {size} principal components of {encoder}'s input embeddings of whole words
  (Apache-2.0).
- The files of this folder may be used under CC BY-SA 4.0, the strictest of these licences; the code
  around them is under its own.
- The vocabulary leaves out addresses, handles and telephone numbers.

## Known weaknesses

Participles attached too low, titles that contain a clause, coordinated questions; other languages
than English.

## Reproduce

    python -m training.constituency --data FOLDER --out models/{name}

`FOLDER` holds `train.mrg`, `dev.mrg`, `test.mrg` and `questions-eval.mrg`, one bracketed tree a
line. All hyper-parameters are in `manifest.json`.
"""


def write_card(out: Path, recipe: Recipe, judgement: Judgement, tagger: str) -> None:
    """Write `CARD.md` and `manifest.json` beside the model's files.

    Args:
        out: The model's folder.
        recipe: As trained.
        judgement: As measured.
        tagger: Name and version of the tagger.
    """
    rows = "\n".join(
        f"| {name} | {s.sentences} | {s.precision:.1f} | {s.recall:.1f} | {s.f1:.1f} "
        f"| {100 * s.exact / max(s.sentences, 1):.1f} % |"
        for name, s in judgement.scores.items()
    )
    card = _CARD.format(
        name=out.name,
        rows=rows,
        tagger=tagger,
        megabytes=judgement.megabytes,
        model=MODEL,
        vectors=VECTORS,
        load=judgement.load_seconds,
        ms=judgement.question_ms,
        most_words=recipe.most_words,
        made=recipe.made_questions,
        size=recipe.vector_size,
        encoder=recipe.encoder,
    )
    (out / "CARD.md").write_text(card, encoding="utf-8")
    manifest = {
        "name": out.name,
        "format": "stanza constituency",
        "files": {
            file: hashlib.sha256((out / file).read_bytes()).hexdigest() for file in (MODEL, VECTORS)
        },
        "tagger": tagger,
        "recipe": asdict(recipe),
        "epoch": judgement.epoch,
        "bracket_f1": {name: round(s.f1, 2) for name, s in judgement.scores.items()},
        "trained_with": {
            package: importlib.metadata.version(package) for package in ("stanza", "torch", "spacy")
        },
    }
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    (out / "manifest.json").write_text(text, encoding="utf-8")

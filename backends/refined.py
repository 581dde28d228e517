"""A corpus in which a language model's extractions replace the sentences."""

import numpy as np

from wye.backends.store.extracted import ExtractedStore, Kind, content_key
from wye.backends.store.snapshot import Corpus, RefinedCorpus, with_sentences


def refine(corpus: Corpus, store: ExtractedStore, kind: Kind) -> RefinedCorpus | None:
    """The corpus with knowledge units or facts as sentences; None if it has none of them.

    Passages without extractions, or changed since, keep their sentences.

    Raises:
        IndexMismatchError: A later Wye wrote the extractions.
        IndexDamagedError: They cannot be read.
    """
    rows, found = [], []
    for id_, content, sentences in store.sentences(kind):
        for row in corpus.rows([id_]):
            if content_key(corpus.titles[row], corpus.texts([row])[0]) == content:
                rows.append(row)
                found.append(sentences)
    return with_sentences(corpus, np.array(rows, np.int64), found) if rows else None

"""spaCy's tags on given tokens: what the parser will see in use."""

from collections.abc import Sequence

from featurizer.spacy_parser import load_pipeline


class Tagger:
    """A spaCy pipeline's tagger, fed with tokens instead of text."""

    def __init__(self, pipeline: str) -> None:
        """Load the pipeline.

        Args:
            pipeline: An installed package that has `load()`, or a folder.

        Raises:
            ModelError: There is no such pipeline.
        """
        self._nlp = load_pipeline(pipeline)
        wanted = {"tok2vec", "transformer", "tagger"}
        self._pipes = [pipe for name, pipe in self._nlp.pipeline if name in wanted]
        meta = self._nlp.meta
        self.name = f"{meta['lang']}_{meta['name']} {meta['version']}"

    def tagged_words(self, texts: Sequence[str]) -> list[list[tuple[str, str]]]:
        """The pipeline's own tokens of each text, with their tags."""
        return [[(token.text, token.tag_) for token in doc] for doc in self._nlp.pipe(texts)]

    def tag(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """Penn tags, one for each token, in order."""
        from spacy.tokens import Doc  # noqa: PLC0415 - a second that `--help` need not pay

        docs = (Doc(self._nlp.vocab, words=list(words)) for words in sentences)
        tags = []
        for doc in docs:
            for pipe in self._pipes:
                pipe(doc)
            tags.append([token.tag_ for token in doc])
        return tags

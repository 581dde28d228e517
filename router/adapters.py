"""From what the featurizer finds to what the backends take; the two do not know each other."""

from collections.abc import Callable, Sequence

from backends.types import Mention, Query
from featurizer.analyser import Analyser
from featurizer.registry import feature_matrix
from featurizer.stopwatch import Stopwatch
from featurizer.types import Analysis
from router.types import AnalysedQuestions


class Questions:
    """An analyser as the gateway wants it."""

    def __init__(self, analyser: Analyser) -> None:
        self._analyser = analyser

    def analyse(
        self,
        texts: Sequence[str],
        wanted: Callable[[str], bool] | None = None,
        *,
        features: bool = False,
    ) -> AnalysedQuestions:
        """One query per question, in order, from one parse and one encoder call.

        Args:
            wanted: Whether the vector of a named entity will be needed; None needs none.
        """
        before = dict(self._analyser.seconds)
        # No trees are built where no score is wanted.
        analyses = self._analyser.questions(texts, wanted, syntax=features)
        seconds = {
            stage: spent - before.get(stage, 0.0)
            for stage, spent in self._analyser.seconds.items()
            if spent > before.get(stage, 0.0)
        }
        queries = [_query(analysis) for analysis in analyses]
        if not features:
            return AnalysedQuestions(queries, seconds=seconds)
        clock = Stopwatch()
        with clock.stage("features"):
            matrix = feature_matrix(analyses)
        trees = [() if one.syntax is None else one.syntax.trees for one in analyses]
        return AnalysedQuestions(queries, matrix, trees, {**seconds, **clock.seconds})


def _query(found: Analysis) -> Query:
    return Query(
        text=found.parse.text,
        vector=found.vector,
        mentions=tuple(Mention(m.text, m.kind, m.vector) for m in found.mentions),
    )

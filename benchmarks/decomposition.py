"""Plans of questions by a language model, to compare with plans by syntax.

Any endpoint with OpenAI's chat completions will do. It copies from the question the descriptions
that have to be looked up; their nesting makes the plan.
"""

import json
from collections.abc import Sequence

import openai

from benchmarks.harness import BenchmarkError
from featurizer.plan import LEVELS, STEPS, Plan, Step, walk
from featurizer.plan_nouns import TYPES
from featurizer.types import Span
from router.reading import QuestionReading

PROMPT = (
    "Copy from the question, word for word, each description that has to be looked up before the "
    "question can be answered, such as 'the composer of Finlandia' in 'Where was the composer of "
    "Finlandia born?'. Leave out names, and the question itself. Answer with a JSON list of "
    f'objects {{"phrase": …, "type": one of {", ".join([*TYPES, "free"])}}}; [] if there is none.'
)


class LlmPlanner:
    """Asks an endpoint for plans; a replacement for `QuestionReading.plans`."""

    def __init__(self, url: str, model: str, key: str = "none", seconds: float = 60.0) -> None:
        """Create the client, without connecting.

        Args:
            url: Base of the API, such as http://localhost:8000/v1.
        """
        self._model = model
        self._client = openai.OpenAI(base_url=url, api_key=key, timeout=seconds)
        self._known: dict[str, Plan] = {}

    def __call__(self, reading: QuestionReading, places: Sequence[int]) -> list[Plan]:
        """Plans for some questions; each is asked for only once.

        Raises:
            BenchmarkError: The endpoint cannot be reached, or answers in another form.
        """
        return [self.plan(reading.questions[place]) for place in places]

    def plan(self, question: str) -> Plan:
        """The plan of a question.

        Raises:
            BenchmarkError: As above.
        """
        if question not in self._known:
            self._known[question] = planned(question, self._answer(question))
        return self._known[question]

    def _answer(self, question: str) -> str:
        try:
            found = self._client.chat.completions.create(
                model=self._model,
                messages=[
                    {"role": "system", "content": PROMPT},
                    {"role": "user", "content": question},
                ],
                temperature=0,
            )
        except openai.OpenAIError as error:
            raise BenchmarkError(f"{self._client.base_url} gives no plans: {error}") from None
        return (found.choices[0].message.content or "") if found.choices else ""


def planned(question: str, answer: str) -> Plan:
    """The plan of a model's answer; phrases that the question lacks are left out.

    Of two phrases that cross, the shorter stays. At most `STEPS` in `LEVELS` levels are kept.
    """
    kept: dict[Span, str] = {}
    for phrase, type_ in sorted(_phrases(answer), key=lambda one: len(one[0])):
        start = question.find(phrase)
        span = start, start + len(phrase)
        if start >= 0 and phrase and phrase != question and not _crosses(span, kept):
            kept.setdefault(span, type_ if type_ in TYPES else "free")
    made: list[Step] = []
    for span, type_ in sorted(kept.items(), key=lambda one: (one[0][1] - one[0][0], one[0])):
        inside = tuple(step for step in made if span[0] <= step.span[0] and step.span[1] <= span[1])
        step = Step(span, "bridge", type_, inside=tuple(sorted(inside, key=lambda s: s.span)))
        if step.level <= LEVELS and len([*walk(made)]) < STEPS:
            made = [*(one for one in made if one not in inside), step]
    return Plan(tuple(sorted(made, key=lambda step: step.span)))


def _crosses(span: Span, others: dict[Span, str]) -> bool:
    return any(
        start < span[1]
        and span[0] < end
        and not (span[0] <= start and end <= span[1])
        and not (start <= span[0] and span[1] <= end)
        for start, end in others
    )


def _phrases(answer: str) -> list[tuple[str, str]]:
    """Phrases with their types, from the list in an answer; text around it is ignored."""
    text = answer[answer.find("[") : answer.rfind("]") + 1]
    try:
        rows = json.loads(text)
    except ValueError:
        return []
    return [
        (row["phrase"], str(row.get("type", "free")))
        for row in rows
        if isinstance(row, dict) and isinstance(row.get("phrase"), str)
    ]

"""Where a feature's value stands among those of a reference set of questions.

`featurizer/reference.json` is written by `python -m training.feature_reference`.
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

# Values are compared and stored so rounded; that a feature's last bits differ means nothing.
DECIMALS = 6


@dataclass(frozen=True, slots=True)
class Reference:
    """Values of all features for a set of questions.

    Attributes:
        schema_id: Of the features, see `featurizer.schema_id`.
        sources: Files the questions stand in, each with their number.
        values: Feature -> its values in ascending order, one for each question.
    """

    schema_id: str
    sources: Mapping[str, int]
    values: Mapping[str, Sequence[float]]

    def percentile(self, name: str, value: float) -> float:
        """Share of the reference set below the value, in percent, equal ones counted half.

        Raises:
            KeyError: There is no such feature.
        """
        known = self.values[name]
        value = round(value, DECIMALS)
        return 50 * (bisect_left(known, value) + bisect_right(known, value)) / len(known)

    def to_json(self) -> str:
        """One line a feature: [value, how often] of each value."""
        lines = [
            f"{json.dumps(name)}: {json.dumps(_counted(values), separators=(',', ':'))}"
            for name, values in self.values.items()
        ]
        return (
            f'{{"schema_id": {json.dumps(self.schema_id)},\n'
            f'"sources": {json.dumps(dict(self.sources))},\n'
            '"values": {\n' + ",\n".join(lines) + "\n}}\n"
        )


def read_reference(text: str | None = None) -> Reference:
    """The reference set of a JSON text; by default the one that comes with Wye."""
    if text is None:
        text = (files("featurizer") / "reference.json").read_text(encoding="utf-8")
    content = json.loads(text)
    values = {
        name: [value for value, count in pairs for _ in range(count)]
        for name, pairs in content["values"].items()
    }
    return Reference(content["schema_id"], content["sources"], values)


def _counted(values: Sequence[float]) -> list[tuple[float, int]]:
    return [
        (int(value) if value == int(value) else value, bisect_right(values, value) - place)
        for place, value in enumerate(values)
        if not place or values[place - 1] != value
    ]

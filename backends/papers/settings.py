"""Settings of the further arms; light, since the settings are read where no arm is used."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

Scoring = Literal["overlap", "cosine", "mix"]
Positive = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, slots=True)
class ClueSettings:
    """How units are followed. Symbols are those of Clue-RAG.

    Attributes:
        nearest: K, number of units taken from each entity, and of units that anchor.
        rounds: D, largest number of units in a set.
        sets: M, number of best sets of a round that are followed.
        score: Score of a set: the share of the question's words that it has ("overlap"), the
            cosine of its summed vectors ("cosine"), or both ("mix").
        names: Whether the entities that the question names are anchors (Spreading Activation).
        units: Whether the entities in the closest units are anchors (Knowledge Anchoring).
        updating: Whether the units taken are subtracted from the question (Query Updating).
    """

    nearest: Positive = 3
    rounds: Positive = 3
    sets: Positive = 5
    score: Scoring = "overlap"
    names: bool = True
    units: bool = True
    updating: bool = True


@dataclass(frozen=True, slots=True)
class ZoomSettings:
    """How the graph is weighted and walked. Symbols are those of ZoomRAG.

    Attributes:
        restart: Probability of going back to the question.
        steps: T, the number of steps.
        deviations: An edge between passages, or from the question to one, needs a similarity this
            many standard deviations above the mean of its row. The paper has 3; with 4 every
            measure but one was higher on the train and dev questions of five datasets.
        neighbours: Largest number of passages that a passage is linked to by similarity; 0 for no
            such edges, since they lowered every measure on these questions.
        least: Least confidence of a name in the question that gives an edge.
        most: Number of passages to link if none stands out and nothing is named.
    """

    restart: Annotated[float, Field(gt=0, le=1)] = 0.8
    steps: Positive = 5
    deviations: float = 4.0
    neighbours: Annotated[int, Field(ge=0)] = 0
    least: float = 0.9
    most: Positive = 10

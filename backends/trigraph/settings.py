"""Settings of the graph arm: how the graph is assembled, entered and walked."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field


@dataclass(frozen=True, slots=True)
class AssemblySettings:
    """What counts as an entity, and as mentioning one.

    Attributes:
        noun_phrases: Whether recurring noun phrases are also entities: "on", "off", or "auto",
            which is on in a corpus with fewer than one named entity to four noun phrases (technical
            texts have one to ten, encyclopaedic ones two to three).
    """

    title_entities: bool = True  # a title is one of its passage and of each of its sentences
    link_text: bool = True  # a sentence mentions every name that it contains, tagged or not
    noun_phrases: Literal["auto", "on", "off"] = "auto"


@dataclass(frozen=True, slots=True)
class SeedSettings:
    """How a question's words become entities.

    `nearest` gives a tagged mention that the vocabulary lacks the entity with the most similar
    vector, as in LinearRAG. This needs an index with entity vectors, which took a third of the
    indexing time and changed no result measurably, so it is off by default.
    """

    vocabulary: bool = True  # known names that the question has are seeds, tagged or not
    lower_case_word: float = 0.3  # of a word linked so that is not written like a name
    lower_case_name: float = 0.8  # of several such words
    noun_phrase: float = 0.3  # of one that is an entity of the graph
    nearest: bool = False
    similarity_floor: float = 0.8  # for `nearest`


@dataclass(frozen=True, slots=True)
class TriGraphSettings:
    """How the graph is built and walked. Symbols are those of LinearRAG, section 3.

    Attributes:
        activation: How entities are activated. "bridging" goes from the names in the question along
            the sentences most similar to it; "eq5" goes along all sentences, as LinearRAG's
            equation 5 is printed; "facts" starts from the entities of the most similar sentences of
            the whole corpus, as EA-GraphRAG's graph arm does.
        steps: T, the most steps of bridging; the seeds count as the first.
        threshold: δ, the least value that activates an entity.
        promotion: How far, from 0 to 1 on the logarithmic scale, a passage is moved up to one of
            the first that mentions its title; less if many others mention it.
        damping: Probability of following an edge instead of restarting.
        candidates: A question's graph has about so many passages: up to a quarter each of those
            with the best similarity, with the best BM25, of the names in the question, of names
            that bridging reached, and of names in the first of these. 0 takes all passages, as
            LinearRAG does.
    """

    assembly: AssemblySettings = field(default_factory=AssemblySettings)
    seeds: SeedSettings = field(default_factory=SeedSettings)
    activation: Literal["bridging", "eq5", "facts"] = "bridging"
    steps: Annotated[int, Field(ge=1)] = 3
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.35
    sentences_per_entity: int = 1  # k, through which each active entity passes on its value
    similarity_weight: float = 4.0  # λ, of the passage's similarity in its prior
    lexical_weight: float = 1.0  # of BM25 relative to similarity, if no seed is a title
    lexical_weight_titled: float = 0.3  # the same if a seed is one
    passage_weight: float = 0.05  # W_p, of passages' restart mass relative to entities'
    degree_power: float = 1.0  # of the number of passages that divides an entity's mass
    title_weight: float = 4.0  # restart mass from a title, over its squared value times similarity
    promotion: Annotated[float, Field(ge=0, le=1)] = 0.5
    damping: Annotated[float, Field(ge=0, lt=1)] = 0.5
    candidates: Annotated[int, Field(ge=0)] = 200

    @property
    def weighs_lexical(self) -> bool:
        """Whether BM25 counts in the prior."""
        return bool(self.lexical_weight or self.lexical_weight_titled)

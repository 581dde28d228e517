"""Why a reply is what it is, in parts; only with `explain`."""

from pydantic import BaseModel, Field

from router.types import Route


class ContributionValue(BaseModel):
    """What one feature added to the score's logit."""

    name: str = Field(description="Of the feature; the first is the average question.")
    logit: float = Field(
        description="Above 0 speaks for the graph. All of them add up to the logit."
    )
    value: float | None = Field(default=None, description="Of the feature, as extracted.")


class ChangeValue(BaseModel):
    """The smallest move of the score that changes the route."""

    route: Route = Field(description="It would then be.")
    threshold: float = Field(description="To be reached.")
    score: float = Field(description="How far to move, signed.")
    logit: float = Field(description="The same on the scale of contributions.")


class ArmHitValue(BaseModel):
    """A place in one arm's own list."""

    id: str
    title: str
    rank: int = Field(description="From 1.")
    score: float = Field(description="The arm's own; comparable within its list only.")


class SeedValue(BaseModel):
    """Words of the question, and the entity they were taken for."""

    mention: str
    entity: str
    value: float = Field(description="From 0 to 1; 1 for the same name.")
    origin: str = Field(description="How it was found: name, nearest, vocabulary or phrase.")


class BridgeValue(BaseModel):
    """The sentence that led from one entity to another."""

    source: str = Field(description="The entity it was reached from.")
    passage: str = Field(description="Id of the sentence's passage.")
    sentence: str
    similarity: float = Field(description="Of the sentence to the question.")


class EntityValue(BaseModel):
    """An entity that became active."""

    entity: str
    level: int = Field(description="Step at which it was reached; 1 for a seed.")
    value: float
    weight: float = Field(description="Sum of the values with which it was reached.")
    passages: int = Field(description="How many passages mention it.")
    bridge: BridgeValue | None = Field(description="How it was first reached; null for a seed.")


class SharesValue(BaseModel):
    """What a passage's place in the graph's ranking is made of."""

    id: str
    prior: float = Field(description="Share of the restart mass, before any walking.")
    pagerank: float = Field(description="Share of the mass that settled on passages.")
    entities: list[str] = Field(description="Active entities that it mentions, strongest first.")


class ExplanationValue(BaseModel):
    """How the graph arm came to its ranking, from the question's words to the passages."""

    seeds: list[SeedValue]
    entities: list[EntityValue] = Field(description="By level, then by falling weight.")
    passages: list[SharesValue] = Field(description="Those of the reply, in its order.")

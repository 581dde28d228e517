"""Where training questions come from, and on what terms."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Provenance:
    """Of a dataset.

    Attributes:
        title: As it is known.
        licence: Of its questions and judgements.
        passages: Where its passages come from, and their licence.
    """

    title: str
    licence: str
    passages: str


_WIKIPEDIA = "Wikipedia, CC BY-SA"
PUBLIC: Mapping[str, Provenance] = {
    "2wiki": Provenance("2WikiMultiHopQA", "Apache-2.0", _WIKIPEDIA),
    "hotpot-small": Provenance("HotpotQA, sample", "CC BY-SA 4.0", _WIKIPEDIA),
    "musique-small": Provenance("MuSiQue, sample", "CC BY 4.0", _WIKIPEDIA),
    "popqa": Provenance("PopQA, sample", "MIT", _WIKIPEDIA),
    "nq": Provenance("Natural Questions, sample", "Apache-2.0 / CC BY-SA 3.0", _WIKIPEDIA),
}
"""Public datasets by the names of the folders that the shipped router is trained on."""
UNSTATED = Provenance("own data", "not stated", "not stated")

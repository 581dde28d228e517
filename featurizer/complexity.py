"""Lu's fourteen indices of syntactic complexity: ratios of the production units.

X. Lu, "Automatic analysis of syntactic complexity in second language writing", International
Journal of Corpus Linguistics 15(4), 2010, table 1.
"""

from dataclasses import dataclass

from featurizer.constituency import Units


@dataclass(frozen=True, slots=True)
class Index:
    """One of Lu's fourteen ratios of units.

    Attributes:
        name: As published, e.g. "DC/T".
        doc: Its meaning.
        above: The unit counted, a field of `Units`.
        below: The unit it is counted for, likewise.
    """

    name: str
    doc: str
    above: str
    below: str

    def value(self, units: Units) -> float:
        """The ratio; 0 when there is nothing to divide by."""
        below: int = getattr(units, self.below)
        above: int = getattr(units, self.above)
        return above / below if below else 0.0


INDICES = (
    Index("MLS", "Mean length of a sentence, in words.", "words", "sentences"),
    Index("MLT", "Mean length of a T-unit, in words.", "words", "t_units"),
    Index("MLC", "Mean length of a clause, in words.", "words", "clauses"),
    Index("C/S", "Clauses a sentence.", "clauses", "sentences"),
    Index("VP/T", "Verb phrases a T-unit.", "verb_phrases", "t_units"),
    Index("C/T", "Clauses a T-unit.", "clauses", "t_units"),
    Index("DC/C", "Dependent clauses a clause.", "dependent_clauses", "clauses"),
    Index("DC/T", "Dependent clauses a T-unit.", "dependent_clauses", "t_units"),
    Index("T/S", "T-units a sentence.", "t_units", "sentences"),
    Index("CT/T", "Share of the T-units that are complex.", "complex_t_units", "t_units"),
    Index("CP/T", "Coordinate phrases a T-unit.", "coordinate_phrases", "t_units"),
    Index("CP/C", "Coordinate phrases a clause.", "coordinate_phrases", "clauses"),
    Index("CN/T", "Complex nominals a T-unit.", "complex_nominals", "t_units"),
    Index("CN/C", "Complex nominals a clause.", "complex_nominals", "clauses"),
)

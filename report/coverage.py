"""What planning knows of the kinds of operators in a model."""

from __future__ import annotations

from dataclasses import dataclass

GIVEN, RULE, REPEATED = "given", "rule", "repeated"
COMPUTED = "computed"
"""Constants, and what nobody reads."""


@dataclass(frozen=True, slots=True)
class ModelKind:
    """One kind of the file, or of the graph that it becomes."""

    kind: str
    nodes: int
    """In the file."""
    operators: int
    """In the graph, as imported."""
    treatment: str
    """`rule`, `given`, `converted`, `repeated`, or `computed` when the model is read."""
    family: str
    becomes: tuple[str, ...]
    rule: str
    """Of the first operator of the kind."""
    can_split: int
    """Operators that can be split."""
    gradient: str

    @property
    def known(self) -> bool:
        return self.treatment != REPEATED

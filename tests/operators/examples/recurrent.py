"""Examples of recurrent networks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from executors.placement import Array
from ir.graph import AttributeValue
from ir.ops.recurrent import GATES
from tests.operators.example import Draw, Example, Maker, example, floats, whole_numbers

TIME, INPUT, HIDDEN = 2, 3, 2


def _network(kind: str) -> Maker:
    """Directions, initial states, lengths, other functions, and the batch in front."""

    def make(draw: Draw) -> Iterator[Example]:
        one, two = _Networks(draw, kind, 1), _Networks(draw, kind, 2)
        yield one([0, 1, 2])
        yield two([0, 1, 2, 3, 5], direction="bidirectional", layout=1)
        yield two([0, 1, 2, 3, 4, 5], direction="bidirectional")
        yield one([0, 1, 2, 3, 5], results=1, direction="reverse", layout=1)
        count = {"RNN": 1, "GRU": 2, "LSTM": 3}[kind]
        names = ("HardSigmoid", "Affine", "ScaledTanh")[:count]
        functions: dict[str, AttributeValue] = {
            "activations": (*names, *("Softsign", "Elu", "LeakyRelu")[:count]),
            "activation_alpha": (0.25, 0.5),
            "activation_beta": (0.125,),
        }
        yield two([0, 1, 2, 3], direction="bidirectional", clip=0.75).having(functions)
        if kind == "GRU":
            yield two([0, 1, 2, 3], direction="bidirectional", linear_before_reset=1)
        if kind == "LSTM":
            yield two([0, 1, 2, 3, 5, 6, 7], direction="bidirectional")
            yield one([0, 1, 2, 3, 4, 6, 7], input_forget=1)

    return make


@dataclass(frozen=True)
class _Networks:
    """Examples of one kind with one or two directions."""

    draw: Draw
    kind: str
    directions: int

    def __call__(
        self, present: list[int], results: int = 3, batch: int = 4, **attributes: AttributeValue
    ) -> Example:
        first = bool(attributes.get("layout"))
        rows, d = GATES[self.kind] * HIDDEN, self.directions
        state = (batch, d, HIDDEN) if first else (d, batch, HIDDEN)
        dims = {
            0: (batch, TIME, INPUT) if first else (TIME, batch, INPUT),
            1: (d, rows, INPUT),
            2: (d, rows, HIDDEN),
            3: (d, 2 * rows),
            5: state,
            6: state,
            7: (d, 3 * HIDDEN),
        }
        operands: list[Array | None] = []
        for index in range(max(present) + 1):
            if index not in present:
                operands.append(None)
            elif index == 4:
                operands.append(whole_numbers(self.draw, batch, below=TIME + 1, least=1))
            else:
                operands.append(floats(self.draw, *dims[index]))
        y = (batch, TIME, d, HIDDEN) if first else (TIME, d, batch, HIDDEN)
        states = min(results - 1, 2 if self.kind == "LSTM" else 1)
        made = example(self.kind, operands, [y, *[state] * states], hidden_size=HIDDEN)
        return made.having(attributes)


RECURRENT: Mapping[str, Maker] = MappingProxyType({kind: _network(kind) for kind in GATES})

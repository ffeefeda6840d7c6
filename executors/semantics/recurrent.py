"""Recurrent networks, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from executors.placement import Array
from ir.ops.recurrent import LENGTHS
from ir.semantics.arrays import np
from ir.semantics.call import Call

Activation: TypeAlias = Callable[[Array], Array]

_FUNCTIONS: Mapping[str, tuple[tuple[float, ...], Callable[..., Array]]] = MappingProxyType(
    {
        "relu": ((), lambda x: np.maximum(x, 0.0)),
        "tanh": ((), np.tanh),
        "sigmoid": ((), lambda x: 1 / (1 + np.exp(-x))),
        "softsign": ((), lambda x: x / (1 + np.abs(x))),
        "softplus": ((), lambda x: np.logaddexp(x, 0.0)),
        "affine": ((1.0, 0.0), lambda x, a, b: a * x + b),
        "leakyrelu": ((0.01,), lambda x, a: np.where(x < 0, a * x, x)),
        "thresholdedrelu": ((1.0,), lambda x, a: np.where(x > a, x, 0.0)),
        "scaledtanh": ((1.0, 1.0), lambda x, a, b: a * np.tanh(b * x)),
        "hardsigmoid": ((0.2, 0.5), lambda x, a, b: np.clip(a * x + b, 0.0, 1.0)),
        "elu": ((1.0,), lambda x, a: np.where(x < 0, a * (np.exp(x) - 1), x)),
    }
)
"""Names, the numbers that they take, and their usual values. Source: ONNX, operator LSTM."""
_DEFAULTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"RNN": ("tanh",), "GRU": ("sigmoid", "tanh"), "LSTM": ("sigmoid", "tanh", "tanh")}
)


def _activations(call: Call) -> list[list[Activation]]:
    """Functions of every direction. Numbers go, in order, to the functions that take some."""
    usual = _DEFAULTS[call.op.kind]
    given = call.op.attributes.get("activations", ())
    names = [str(n).lower() for n in given] if isinstance(given, tuple) else [str(given).lower()]
    names = (names or list(usual)) * 2
    alphas, betas = _numbers(call, "activation_alpha"), _numbers(call, "activation_beta")
    limit = call.float("clip", np.inf)
    found: list[Activation] = []
    for name in names[: 2 * len(usual)]:
        defaults, function = _FUNCTIONS[name]
        numbers = [next(s, d) for s, d in zip((alphas, betas), defaults, strict=False)]
        found.append(_clipped(function, numbers, limit))
    return [found[: len(usual)], found[len(usual) :]]


def _numbers(call: Call, key: str) -> Iterator[float]:
    value = call.op.attributes.get(key, ())
    return iter([float(v) for v in (value if isinstance(value, tuple) else (value,))])


def _clipped(function: Callable[..., Array], numbers: list[float], limit: float) -> Activation:
    if limit == np.inf:
        return lambda x: function(x, *numbers)
    return lambda x: function(np.clip(x, -limit, limit), *numbers)


@dataclass(frozen=True, slots=True)
class _Cell:
    """One direction: its weights and functions."""

    kind: str
    w: Array
    r: Array
    bias: Array
    peepholes: Array
    functions: list[Activation]
    couples_gates: bool = False
    resets_late: bool = False

    def step(self, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
        """States after one step."""
        if self.kind == "LSTM":
            return self._lstm(x, h, c)
        return (self._gru(x, h) if self.kind == "GRU" else self._rnn(x, h)), c

    def _rnn(self, x: Array, h: Array) -> Array:
        bias = self.bias[: h.shape[1]] + self.bias[h.shape[1] :]
        return self.functions[0](x @ self.w.T + h @ self.r.T + bias)

    def _gru(self, x: Array, h: Array) -> Array:
        size = h.shape[1]
        wb, rb = self.bias[: 3 * size], self.bias[3 * size :]
        both = 2 * size
        f, g = self.functions
        gates = f(x @ self.w[:both].T + wb[:both] + h @ self.r[:both].T + rb[:both])
        update, reset = gates[:, :size], gates[:, size:]
        fresh = x @ self.w[both:].T + wb[both:]
        if self.resets_late:
            hidden = g(fresh + reset * (h @ self.r[both:].T + rb[both:]))
        else:
            hidden = g(fresh + (reset * h) @ self.r[both:].T + rb[both:])
        return (1 - update) * hidden + update * h

    def _lstm(self, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
        size = h.shape[1]
        f, g, last = self.functions
        every = x @ self.w.T + h @ self.r.T + self.bias[: 4 * size] + self.bias[4 * size :]
        i, o, forget, new = (every[:, n * size : (n + 1) * size] for n in range(4))
        peep = [self.peepholes[n * size : (n + 1) * size] for n in range(3)]
        enter = f(i + peep[0] * c)
        keep = 1 - enter if self.couples_gates else f(forget + peep[2] * c)
        c = keep * c + enter * g(new)
        return f(o + peep[1] * c) * last(c), c


def recurrent(call: Call, first: int = 0) -> list[Array]:
    """All steps of the directions that the operands have.

    Args:
        call: the operator.
        first: number of the first of these directions.
    """
    batch_first = bool(call.int("layout"))
    x = np.swapaxes(call[0], 0, 1) if batch_first else call[0]
    states = [_initial(call, index, x, swapped=batch_first) for index in (5, 6)]
    lengths = call[LENGTHS] if call.has(LENGTHS) else None
    found = []
    for place in range(call[1].shape[0]):
        backwards = first + place == 1 or call.op.attributes.get("direction") == "reverse"
        begin = (states[0][place], states[1][place])
        found.append(_run(_cell(call, place, first), x, begin, lengths, backwards=backwards))
    y = np.stack([f[0] for f in found], axis=1)
    last = [np.stack([f[n] for f in found], axis=0) for n in (1, 2)]
    if batch_first:
        y, last = np.transpose(y, (2, 0, 1, 3)), [np.swapaxes(s, 0, 1) for s in last]
    return [y, *last][: len(call.result_dims)]


def _initial(call: Call, index: int, x: Array, *, swapped: bool) -> Array:
    if call.has(index):
        return np.swapaxes(call[index], 0, 1) if swapped else call[index]
    return np.zeros((call[1].shape[0], x.shape[1], call[2].shape[2]), dtype=x.dtype)


def _cell(call: Call, place: int, first: int) -> _Cell:
    gates, size = call[1].shape[1], call[2].shape[2]
    return _Cell(
        call.op.kind,
        call[1][place],
        call[2][place],
        call[3][place] if call.has(3) else np.zeros(2 * gates),
        call[7][place] if call.has(7) else np.zeros(3 * size),
        _activations(call)[first + place],
        bool(call.int("input_forget")),
        bool(call.int("linear_before_reset")),
    )


def _run(
    cell: _Cell,
    x: Array,
    begin: tuple[Array, Array],
    lengths: Array | None,
    *,
    backwards: bool,
) -> tuple[Array, Array, Array]:
    """Results of every step and the states after the last; a sequence that ended keeps them."""
    h, c = begin
    steps = list(range(x.shape[0]))
    out: dict[int, Array] = {}
    for t in reversed(steps) if backwards else steps:
        new_h, new_c = cell.step(x[t], h, c)
        if lengths is None:
            h, c = new_h, new_c
            out[t] = h
        else:
            goes_on = (t < lengths)[:, None]
            h, c = np.where(goes_on, new_h, h), np.where(goes_on, new_c, c)
            out[t] = np.where(goes_on, new_h, 0.0)
    return np.stack([out[t] for t in steps], axis=0), h, c

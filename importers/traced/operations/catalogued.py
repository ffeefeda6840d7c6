"""Operators of the catalogue whose calls have one of a few forms: their entries name them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from importers.traced.call import Converter
from importers.traced.operations import norms, pointwise, reductions
from importers.traced.table import FrontEnd, enter
from ir.ops import Form, catalogue


def _by_channel(kind: str) -> Converter:
    return norms.alone(norms.by_channel(kind))


_ONE, _TWO = "self", "self, other"
_FORMS: Mapping[Form, tuple[Callable[[str], Converter], str]] = MappingProxyType(
    {
        Form.ONE: (pointwise.one, _ONE),
        Form.TWO: (pointwise.pair, _TWO),
        Form.TEST: (pointwise.test, _ONE),
        Form.COMPARISON: (pointwise.compared, _TWO),
        Form.NOT: (pointwise.logical, _ONE),
        Form.LOGIC: (pointwise.logical, _TWO),
        Form.BITS: (pointwise.bitwise, _ONE),
        Form.BITWISE: (pointwise.bitwise, _TWO),
        Form.REDUCTION: (reductions.reduction, "self, dim, keepdim"),
        Form.ALONG: (reductions.along, "self, dim"),
        Form.SCAN: (reductions.scan, "self, dim"),
        Form.BY_CHANNEL: (_by_channel, "input, weight, bias, eps"),
    }
)
"""What writes a form, and its arguments where a line has none; MindSpore says `input`."""


def _enter_all() -> None:
    for kind, entry in catalogue().items():
        told = entry.spelling
        if told is None:
            continue
        make, arguments = _FORMS[told.form]
        theirs = arguments.replace("self", "input as self")
        enter(FrontEnd.ATEN, told.aten, make(kind), arguments)
        enter(FrontEnd.MINDIR, told.mindir, make(kind), theirs)
        enter(FrontEnd.STABLEHLO, told.stablehlo, make(kind), arguments)


_enter_all()

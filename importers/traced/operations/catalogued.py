"""Operators of the catalogue whose calls have one of a few forms: their entries name them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from importers.traced.call import Converter
from importers.traced.operations import norms, pointwise, reductions
from importers.traced.table import Entry, FrontEnd, enter, entries_of
from ir.ops import Form, Spelling, catalogue


def _by_channel(kind: str) -> Converter:
    return norms.alone(norms.by_channel(kind))


_ONE, _TWO = "self", "self, other"
_FORMS: Mapping[Form, tuple[Callable[..., Converter], str]] = MappingProxyType(
    {
        Form.ONE: (pointwise.one, _ONE),
        Form.TWO: (pointwise.pair, _TWO),
        Form.SCALED: (pointwise.scaled, f"{_TWO}, alpha"),
        Form.TEST: (pointwise.tested, _ONE),
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


def named(front_end: FrontEnd, kind: str, spelling: Spelling) -> dict[str, Entry]:
    """The calls of a front end that a kind of the catalogue names, by target."""
    make, arguments = _FORMS[spelling.form]
    lines: str = getattr(spelling, front_end.value)
    if front_end is FrontEnd.MINDIR:
        arguments = arguments.replace("self", "input as self")
    found = entries_of(front_end, lines, make(kind), arguments)
    return {
        target: replace(each, convert=make(kind, *each.defaults)) for target, each in found.items()
    }


for _kind, _entry in catalogue().items():
    if _entry.spelling is not None:
        for _front_end in FrontEnd:
            enter(_front_end, named(_front_end, _kind, _entry.spelling))

"""Element-wise operations that no other tracer has, or has in this form."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from importers.stablehlo.call import ViewCall
from importers.stablehlo.views import repeated
from importers.traced.call import Converter
from importers.traced.formulas import formula
from importers.traced.operations.pointwise import compared, one, power, unequal
from importers.traced.table import spelled
from ir.ops import Form, catalogue
from ir.ops.indexing import LOOKUPS

spelled(stablehlo="stablehlo.rsqrt(self)")(one("Rsqrt"))
spelled(stablehlo="chlo.erfc(self)")(one("Erfc"))
_COMPARISONS: Mapping[str, Converter] = MappingProxyType(
    {
        **{
            entry.function.torch.upper(): compared(kind)
            for kind, entry in catalogue().items()
            if entry.spelling and entry.spelling.form is Form.COMPARISON and entry.function
        },
        "NE": unequal,
    }
)
"""By their direction, which has the name of torch's function."""


spelled(stablehlo="stablehlo.exponential_minus_one(self)")(formula("Exp(self) - 1.0"))


spelled(stablehlo="stablehlo.cbrt(self)")(formula(f"Pow(self, {1 / 3})"))


@spelled(stablehlo="stablehlo.power(self, exponent)")
def _power(call: ViewCall) -> None:
    view = call.view(0)
    if call.number(call.view(1)) == 2:
        call.answer.mul(view, view)
    else:
        power(call)


@spelled(stablehlo="stablehlo.compare(self, other)")
def _compare(call: ViewCall) -> None:
    direction = next((w for w in call.operation.words if w in _COMPARISONS), "")
    direction = direction or call.text("comparison_direction", "").rpartition(" ")[2]
    if direction not in _COMPARISONS:
        raise call.fault("it names no comparison")
    _COMPARISONS[direction](call)


@spelled(stablehlo="stablehlo.select(condition, self, other)")
def _select(call: ViewCall) -> None:
    """A choice; one between rows that were looked up and no numbers only guards the lookup."""
    condition, yes, no = (call.view(i) for i in range(3))
    if not condition.dims and yes.dims:
        condition = repeated(condition, yes.dims, ())
    maker = call.draft.makers.get(yes.name)
    missing = call.number(no)
    if maker is not None and maker.kind in LOOKUPS and missing is not None:
        index = maker.inputs[1]
        if missing != missing and _follows(call, condition.name, index):  # noqa: PLR0124
            call.alias(yes)
            return
    call.answer.select(condition, yes, no)


def _follows(call: ViewCall, name: str, source: str) -> bool:
    """Whether a tensor is made of a source, or of what the source is made of, by few steps."""
    makers = call.draft.makers
    roots = {source}
    if source in makers:
        roots.update(makers[source].inputs)
    known = call.draft.numbers
    roots = {r for r in roots if r not in known}
    front = {name}
    for _ in range(8):
        if front & roots:
            return True
        front = {n for each in front if each in makers for n in makers[each].inputs}
    return False


spelled(stablehlo="stablehlo.clamp(min, self, max)")(formula("Min(Max(self, min), max)"))


@spelled(stablehlo="stablehlo.optimization_barrier()")
def _passed(call: ViewCall) -> None:
    call.deliver(*call.views)

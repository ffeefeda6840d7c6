"""One table for all tracers: names of the catalogue, lines of signatures, formulas."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from executors.placement import Array
from importers.errors import ModelError
from importers.traced.call import Call
from importers.traced.formulas import formula
from importers.traced.operations import FrontEnd, table
from importers.traced.operations.catalogued import named
from importers.traced.table import Entry, arguments_of, enter, entries_of
from importers.traced.writer import Writer
from ir.graph import Tensor
from ir.ops import Form, Spelling, catalogue

pytestmark = pytest.mark.fast

SPELLED = {kind: e.spelling for kind, e in catalogue().items() if e.spelling is not None}
DIMS = (2, 4, 6)
TYPES = {Form.NOT: "bool", Form.LOGIC: "bool", Form.BITS: "int64", Form.BITWISE: "int64"}
FLAGS = {Form.TEST, Form.COMPARISON, Form.NOT, Form.LOGIC}
TWO = {Form.TWO, Form.SCALED, Form.COMPARISON, Form.LOGIC, Form.BITWISE}


def called(arguments: dict[str, Tensor], result: Tensor, writer: Writer) -> Call:
    return Call(writer, "call", "target", "", arguments, (result,), frozenset({0}))


def kinds_of(entry: Entry, form: Form) -> list[str]:
    """What a call with its operands alone becomes."""
    writer, dtype = Writer(), TYPES.get(form, "float32")
    operands = [writer.tensor(f"x{i}", DIMS, dtype) for i in range(2 if form in TWO else 1)]
    result = writer.tensor("result", DIMS, "bool" if form in FLAGS else dtype)
    placed = arguments_of(entry, operands, {})
    given = {name: value for name, value in placed.items() if isinstance(value, Tensor)}
    call = called(given, result, writer)
    if "dim" in entry.names.values():
        call.arguments = {**given, "dim": 0}
    entry.convert(call)
    return [step.kind for step in writer.steps]


@pytest.mark.parametrize("front_end", FrontEnd)
@pytest.mark.parametrize("kind", SPELLED)
def test_a_name_of_the_catalogue_is_written_as_its_kind(kind: str, front_end: FrontEnd) -> None:
    """And as nothing else, but for the scale and the shift of a norm that is given none."""
    spelling = SPELLED[kind]
    before = ["Expand", "Expand"] if spelling.form is Form.BY_CHANNEL else []
    for target, entry in named(front_end, kind, spelling).items():
        assert table(front_end)[target].names == entry.names
        assert kinds_of(entry, spelling.form) == [*before, kind], target


def test_a_kind_needs_nothing_but_its_names() -> None:
    spelling = Spelling(Form.ONE, "twist twist.out", "Twist(x as self); TwistExt", "chlo.twist")
    found = {each: named(each, "Twist", spelling) for each in FrontEnd}
    assert set(found[FrontEnd.ATEN]) == {"aten.twist.default", "aten.twist.out"}
    assert set(found[FrontEnd.STABLEHLO]) == {"chlo.twist"}
    arguments = {name: entry.parameters for name, entry in found[FrontEnd.MINDIR].items()}
    assert arguments == {"Twist": ("x",), "TwistExt": ("input",)}
    every = [entry for entries in found.values() for entry in entries.values()]
    assert [kinds_of(entry, Form.ONE) for entry in every] == [["Twist"]] * 5


@pytest.mark.parametrize(("given", "alpha"), [((), 1.0), ((None,), 1.0), ((0.5,), 0.5)])
def test_a_number_that_is_left_out_has_its_default(given: tuple[float], alpha: float) -> None:
    writer, entry = Writer(), table(FrontEnd.ATEN)["aten.celu.default"]
    operand, result = (writer.tensor(name, DIMS, "float32") for name in ("x", "y"))
    arguments = arguments_of(entry, [operand, *given], {})
    entry.convert(Call(writer, "call", "target", "", arguments, (result,), frozenset({0})))
    (step,) = writer.steps
    assert (step.kind, step.attributes) == ("Celu", {"alpha": alpha})


@pytest.mark.parametrize("line", ["(self)", "a(b", "a-b(self)", "a{b}(self)"])
def test_a_line_that_is_none_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="no "):
        entries_of(FrontEnd.ATEN, line, lambda _: None)


def test_a_target_has_one_line() -> None:
    line = entries_of(FrontEnd.ATEN, "relu(self)", lambda _: None)
    with pytest.raises(ValueError, match=r"aten has aten\.relu\.default twice"):
        enter(FrontEnd.ATEN, line)


def computed(text: str, arrays: Sequence[Array], low: float) -> Array:
    """What a formula of `a`, `b` computes."""
    writer, fed = Writer(), dict(zip("ab", arrays, strict=True))
    operands = {name: writer.tensor(name, each.shape, "float32") for name, each in fed.items()}
    dims = np.broadcast_shapes(*(each.shape for each in arrays))
    result = writer.tensor("result", dims, "float32")
    for tensor in operands.values():
        writer.describe(writer.graph.input.add(), tensor)
    writer.describe(writer.graph.output.add(), result)
    formula(text, low=low)(called(operands, result, writer))
    (found,) = ReferenceEvaluator(writer.model("test")).run(None, fed)
    return np.asarray(found)


def test_a_formula_computes_what_it_says() -> None:
    draw = np.random.default_rng(0)
    a, b = (draw.normal(size=dims).astype(np.float32) for dims in ((3, 4), (4,)))
    text = "gate = Sigmoid(b); Where(a > low, a * gate - 1, -(a / 2) + 1 - gate)"
    gate = 1 / (1 + np.exp(-b))
    wanted = np.where(a > 0.25, a * gate - 1, -(a / 2) + 1 - gate)
    np.testing.assert_allclose(computed(text, [a, b], low=0.25), wanted, rtol=1e-5, atol=1e-6)


def test_operands_that_do_not_fit_are_told() -> None:
    writer = Writer()
    operands = {n: writer.tensor(n, d, "float32") for n, d in (("a", (3, 4)), ("b", (5,)))}
    result = writer.tensor("result", (3, 4), "float32")
    with pytest.raises(ModelError, match="the operands of Mul have other dims"):
        formula("Exp(a * b)")(called(operands, result, writer))


def test_what_is_no_formula_is_refused() -> None:
    writer = Writer()
    a = writer.tensor("a", (3,), "float32")
    with pytest.raises(ValueError, match="no formula"):
        formula("[a]")(called({"a": a}, a, writer))

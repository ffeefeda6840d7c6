"""What the dialect offers and what is taken from a user are the same strategies, with the same
placement: the operators that `make test-mindspore` holds against MindSpore itself.
"""

from __future__ import annotations

import math

import pytest

from exporters.errors import StrategyFileError
from exporters.mindspore.checks import reader_violations
from exporters.mindspore.cuts import device_layout, reader_of_cuts
from ir.mindspore_forms.primitives import PRIMITIVES
from ir.ops import catalogue
from tests.mindspore_package.operator_agreement import OTHERWISE
from tests.mindspore_package.operator_examples import examples, one
from tests.mindspore_package.write_operators import Operator, every, mesh_of, probed
from tests.planner.mindspore_cases_list import DOCS

pytestmark = pytest.mark.fast

OPERATORS = [Operator(number, graph) for number, graph in enumerate(examples())]
EVERY = pytest.mark.parametrize("operator", OPERATORS, ids=lambda o: f"{o.number} {o.form.name}")

NAMELESS = frozenset({"BitShift", "Conv", "ConvTranspose", "LpNormalization", "ScatterND", "Trilu"})
"""Kinds whose primitive depends on their attributes."""


@EVERY
@pytest.mark.parametrize("devices", [4, 8])
def test_what_is_offered_is_taken_and_lies_as_planned(operator: Operator, devices: int) -> None:
    mesh = mesh_of(devices)
    splits = operator.splits(mesh)
    assert splits
    for split in splits:
        planned = operator.reader(split, mesh.sizes)
        assert reader_violations(planned) == ()
        taken = reader_of_cuts(operator.view, planned.cuts, devices)
        assert taken.cuts == planned.cuts
        assert device_layout(taken) == device_layout(planned)


@EVERY
def test_what_is_not_offered_is_refused(operator: Operator) -> None:
    """But for lookups, which MindSpore repeats over the outermost devices."""
    for case in probed(operator):
        assert case["ours"] or (case["primitive"] == "Gather" and case["first"]), case["cuts"]


def test_every_primitive_has_an_example() -> None:
    assert all(operator.form.name for operator in OPERATORS)
    kinds = {operator.view.op.kind for operator in OPERATORS}
    assert kinds == set(PRIMITIVES) | NAMELESS | {"OneHot"}
    _, _, rest = DOCS.read_text().partition("## Kinds without a primitive")
    listed = [
        kind for row in rest.splitlines()[4:] for kind in row.split("|")[1].strip().split(", ")
    ]
    assert len(set(listed)) == len(listed)
    assert set(listed) == set(catalogue()) - kinds


def test_what_mindspore_sends_otherwise_stands_in_the_docs() -> None:
    _, _, rest = DOCS.read_text().partition("## What MindSpore sends otherwise")
    rows = rest.partition("\n## ")[0].splitlines()
    named = {row.split("|")[1].strip(" `") for row in rows if row.startswith("| `")}
    assert named == {primitive for primitive, _ in OTHERWISE}


@EVERY
def test_gradients_of_parameters_are_summed_over_all_devices_that_have_a_copy(
    operator: Operator,
) -> None:
    mesh = mesh_of(8)
    splits = every(operator, 8)
    for operand in operator.trained:
        messages = operator.messages(mesh, operand)
        dims = operator.view.dims(operand)
        for split in splits:
            pieces = operator.reader(split, mesh.sizes).count(_factors(operator, operand))
            sent = messages.sent(split)["gradients"]
            assert [len(ranks) for _, ranks, _ in sent] == ([8 // pieces] if pieces < 8 else [])
            assert all(nbytes == 4 * math.prod(dims) // pieces for _, _, nbytes in sent)


def _factors(operator: Operator, operand: int) -> tuple[int, ...]:
    mapping = operator.rule.operands[operand] or ()
    return tuple(factor for dim in mapping for factor in dim)


@pytest.mark.parametrize(
    ("cuts", "devices", "reason"),
    [
        (((2, 1),), 8, "the strategy has 1 inputs, the operator 2"),
        (((2, 1), (1, 2), (1,)), 8, "the strategy has 3 inputs, the operator 2"),
        (((2, 1, 1), (1, 2)), 8, "the strategy of input 0 has 3 dimensions, the input 2"),
        (((3, 1), (1, 1)), 8, "dimension of size 32 of input 0 is cut 3 ways"),
        (((0, 1), (1, 1)), 8, "input 0 is cut 0 ways"),
        (((2, 2), (1, 2)), 8, "dimension 0 of input 1 is cut 1 ways, and 2 ways in another input"),
        (((4, 2), (2, 4)), 8, "it takes 32 of 8 devices"),
        (((4, 2), (2, 1)), 12, "it takes 8 of 12 devices"),
    ],
)
def test_a_refusal_says_why(cuts: tuple[tuple[int, ...], ...], devices: int, reason: str) -> None:
    product = next(o for o in OPERATORS if o.form.name == "MatMul")
    with pytest.raises(StrategyFileError) as caught:
        reader_of_cuts(product.view, cuts, devices)
    assert reason in [violation.what for violation in caught.value.violations]


def test_a_cut_must_be_a_power_of_two_unless_the_devices_are_none() -> None:
    view = Operator(0, one("Relu", [(48, 96)], [(48, 96)])).view
    assert reader_of_cuts(view, ((3, 8),), 24).cuts == ((3, 8),)
    with pytest.raises(StrategyFileError, match="choose a power of two"):
        reader_of_cuts(view, ((3, 1),), 16)


@pytest.mark.parametrize(
    ("kind", "kernel", "step", "pads", "size", "pieces", "taken"),
    [
        ("Conv", 1, 1, (0, 0), 64, 8, True),
        ("Conv", 2, 1, (0, 1), 64, 8, True),
        ("Conv", 2, 2, (0, 0), 64, 8, True),
        ("Conv", 2, 2, (0, 0), 8, 8, False),  # four positions in eight pieces
        ("Conv", 3, 1, (1, 1), 8, 8, True),
        ("Conv", 3, 1, (0, 0), 64, 8, False),  # fewer windows than positions
        ("Conv", 3, 2, (0, 1), 64, 8, True),
        ("Conv", 5, 1, (2, 2), 8, 8, False),  # edges of two in pieces of one
        ("Conv", 7, 2, (3, 3), 64, 8, True),
        ("Conv", 9, 1, (4, 4), 32, 8, True),
        ("Conv", 11, 1, (5, 5), 32, 8, False),
        ("Conv", 2, 3, (0, 0), 64, 2, False),
        ("Conv", 3, 4, (0, 0), 64, 8, True),
        ("ConvTranspose", 2, 2, (0, 0), 64, 8, True),
        ("ConvTranspose", 4, 2, (1, 1), 64, 8, True),
        ("ConvTranspose", 4, 1, (1, 2), 64, 8, True),
        ("ConvTranspose", 10, 2, (4, 4), 8, 8, False),
        ("ConvTranspose", 4, 1, (0, 0), 64, 8, False),
        ("MaxPool", 2, 2, (0, 0), 64, 8, True),
        ("MaxPool", 2, 4, (0, 0), 64, 8, True),
        ("MaxPool", 3, 2, (0, 1), 64, 8, False),  # windows overlap
        ("AveragePool", 2, 1, (0, 1), 64, 2, False),
    ],
)
def test_positions_are_cut_as_mindspore_2_10_lets_them_be_cut(
    kind: str, kernel: int, step: int, pads: tuple[int, int], size: int, pieces: int, taken: bool
) -> None:
    """Seen with the real package, compiled for 8 devices."""
    before, behind = pads
    if kind == "ConvTranspose":
        made = (size - 1) * step + kernel - before - behind
    else:
        made = (size + before + behind - kernel) // step + 1
    view = Operator(
        0,
        one(
            kind,
            [(16, 16, 16, size), *([(16, 16, 1, kernel)] if kind.startswith("Conv") else [])],
            [(16, 16, 16, made)], (), (), kernel_shape=(1, kernel), strides=(1, step),
            pads=(0, before, 0, behind),
        ),
    ).view  # fmt: skip
    cuts = ((1, 1, 1, pieces), (1, 1, 1, 1))[: len(view.op.inputs)]
    if taken:
        assert reader_of_cuts(view, cuts, 8).cuts == cuts
        return
    with pytest.raises(StrategyFileError, match=r"dimension 3 of input 0|of size"):
        reader_of_cuts(view, cuts, 8)

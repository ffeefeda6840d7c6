"""The forward law of the catalogue: the shards of every operator compute what the whole computes.

Each instance runs whole, then in two parts along every factor that its rule lets be split, with
the operands cut as the rule says. The parts are put together as the rule says: placed along the
factor where the result has it, added where it does not. Since this holds for all operands, the
chain rule gives the backward law: the gradient of an operand is placed or added in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from ir.ops import OpView, catalogue, lookup
from ir.rule import ShardingRule, check_rule
from tests.ir.instance import Instance
from tests.ir.instances import INSTANCES
from tests.ir.meanings import has_onnx_oracle, meaning_of, onnx_oracle
from tests.ir.shards import Array, cut, cut_dims, join, run_together
from tests.operators.examples import EXAMPLES


def _rule(instance: Instance) -> ShardingRule:
    return lookup(instance.kind).rule(instance.view())


def _run(
    view: OpView, rule: ShardingRule, operands: Sequence[Array | None], factor: int, ways: int
) -> tuple[list[list[Array]], list[Array]]:
    meaning = meaning_of(view.op.kind)
    shards = []
    for part in range(ways):
        local = [
            None if a is None else cut(a, m, rule, factor, part, ways)
            for a, m in zip(operands, rule.operands, strict=True)
        ]
        dims = [
            cut_dims(t.dims, m, rule, factor, ways)
            for t, m in zip(view.outputs, rule.results, strict=True)
        ]
        shards.append(meaning(view, local, dims, part))
    return run_together(
        shards, [factor in c.factors for c in rule.internal for _ in range(c.forward)]
    )


def _whole(instance: Instance) -> list[Array]:
    return _run(instance.view(), _rule(instance), instance.operands, -1, 1)[0][0]


def _close(found: Array, wanted: Array) -> None:
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)


def test_every_kind_of_the_catalogue_has_an_instance() -> None:
    assert set(catalogue()) <= {i.kind for i in INSTANCES} | set(EXAMPLES)


@pytest.mark.parametrize("instance", INSTANCES, ids=str)
def test_a_rule_fits_the_tensors_of_its_operator(instance: Instance) -> None:
    rule, view = _rule(instance), instance.view()
    operands = [None if t is None else t.dims for t in view.inputs]
    results = [t.dims for t in view.outputs]
    check_rule(rule, operands, results)
    assert sorted(rule.order) in ([], list(range(len(rule.sizes))))
    for mapping, dims in zip((*rule.operands, *rule.results), (*operands, *results), strict=True):
        for factors, dim in zip(mapping or (), dims if mapping and dims else (), strict=True):
            size = math.prod(rule.sizes[f] for f in factors)
            assert not factors or dim % size == 0
            if instance.kind != "Reshape":
                assert not factors or dim == size


JUDGED = [i for i in INSTANCES if has_onnx_oracle(i.kind) and not i.attributes.get("to_end")]
"""Instances that ONNX judges; it dropped the softmax that flattens."""


@pytest.mark.parametrize("instance", JUDGED, ids=str)
def test_our_own_meanings_agree_with_onnx(instance: Instance) -> None:
    wanted = onnx_oracle(instance.view(), instance.operands)
    for found, value in zip(_whole(instance), wanted, strict=True):
        _close(found, value)


def _cases() -> list[tuple[Instance, int]]:
    return [
        (instance, factor)
        for instance in INSTANCES
        for factor in _rule(instance).splittable
        if _rule(instance).sizes[factor] % 2 == 0
    ]


def _case_name(value: object) -> str:
    return f"f{value}" if isinstance(value, int) else str(value)


@pytest.mark.parametrize(("instance", "factor"), _cases(), ids=_case_name)
def test_shards_compute_what_the_whole_computes(instance: Instance, factor: int) -> None:
    rule, view = _rule(instance), instance.view()
    parts, sent = _run(view, rule, instance.operands, factor, 2)
    for index, (whole, mapping) in enumerate(zip(_whole(instance), rule.results, strict=True)):
        assert mapping is not None
        mine = [p[index] for p in parts]
        if rule.has(mapping, factor) or not _is_reduced_inside(rule, factor):
            _close(join(mine, mapping, rule, factor, whole.shape), whole)
        else:
            for part in mine:
                _close(part, whole)
    _check_messages(rule, factor, sent)


def _is_reduced_inside(rule: ShardingRule, factor: int) -> bool:
    return any(factor in c.factors for c in rule.internal)


def _check_messages(rule: ShardingRule, factor: int, sent: Sequence[Array]) -> None:
    """Operators send as many messages as the rule says, each as large as it says."""
    expected = [
        math.prod(rule.sizes[f] // (2 if f == factor else 1) for f in collective.message)
        for collective in rule.internal
        for _ in range(collective.forward)
    ]
    assert [s.size for s in sent] == expected

"""Names and orientation of parameters as a network for MindSpore has them."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exporters.errors import ExportError
from exporters.mindspore.checkpoint import check_strategy, strategy_checkpoint
from exporters.mindspore.names import (
    Names,
    bundled_names,
    name_rules,
    names_for,
    renamed,
    renamed_scope,
)
from importers.onnx import import_onnx
from ir.plan import Plan
from planner.request import SearchRequest
from planner.search import search
from tests.exporters.mindspore_rules import (
    item,
    layout,
    planned_slices,
    resting_slices,
    strategy_slices,
)
from tests.exporters.random_plans import drawn, known_space, split_like
from tests.exporters.small_networks import language_model, perceptron, stored_otherwise
from topology.catalogue import named_cluster

MODELS = Path(__file__).parents[1] / "data" / "models"


@pytest.fixture
def rules(tmp_path: Path) -> Any:
    """Entries from the text of a names file."""

    def make(text: str) -> Any:
        (tmp_path / "names.yaml").write_text(text)
        return name_rules(str(tmp_path / "names.yaml"))

    return make


def two() -> Plan:
    return known_space(_two_layers, 8).plan(split_like(-1, -1, -1))


def _two_layers() -> Any:
    return perceptron(("a.w", "b.w"), ((256, 512), (512, 256)), 64)


# What names do


def test_parameters_get_the_names_of_the_network(rules: Any) -> None:
    names = names_for(two(), rules(r"[{pattern: '(.)\.w', name: 'cell.\1.weight'}]"))
    found = strategy_checkpoint(two(), names)
    assert [each.key for each in found.strategies] == [
        "MatMul_cell.a.weight",
        "MatMul_cell.b.weight",
    ]
    assert [each.name for each in found.layouts] == ["cell.a.weight", "cell.b.weight"]


def test_json_is_a_names_file_too(rules: Any) -> None:
    names = names_for(two(), rules('[{"pattern": "a.w", "name": "w1"}]'))
    assert [each.name for each in strategy_checkpoint(two(), names).layouts] == ["w1", "b.w"]


def test_a_transposed_matrix_has_its_cuts_and_its_map_the_other_way_round(rules: Any) -> None:
    plan = known_space(_two_layers, 8).plan(split_like(0, 2, 2))
    names = names_for(plan, rules("[{pattern: 'a.w', name: 'a.w', transpose: true}]"))
    plain, turned = strategy_checkpoint(plan), strategy_checkpoint(plan, names)
    assert item(plain, "MatMul_a.w").cuts == ((2, 1), (1, 4))
    assert item(turned, "MatMul_a.w").cuts == ((2, 1), (4, 1))
    assert layout(plain, "a.w").tensor_map == (-1, 0)
    assert layout(turned, "a.w").tensor_map == (0, -1)
    assert layout(turned, "a.w").tensor_shape == (512, 256)
    assert layout(turned, "b.w") == layout(plain, "b.w")


def test_mindspore_places_a_transposed_matrix_as_the_plan_does(rules: Any) -> None:
    space = known_space(_two_layers, 8)
    entries = rules("[{pattern: '(.*)', name: '\\1', transpose: true}]")
    seen = 0
    for seed in range(60):
        plan = space.plan(drawn(random.Random(seed)))
        if check_strategy(plan):
            continue
        seen += 1
        found = strategy_checkpoint(plan, names_for(plan, entries))
        for planned in plan.parameters:
            cuts = item(found, f"MatMul_{planned.name}").cuts
            shapes = (cuts[0], planned.dims[::-1])
            slices = strategy_slices("MatMul", cuts, shapes, plan.devices, transposed=True)[1]
            assert planned.used is not None
            assert slices == planned_slices(plan, planned.used, planned.dims, (1, 0))
    assert seen >= 20


def test_transposing_what_the_file_has_transposed_gives_the_plans_order(rules: Any) -> None:
    plan = known_space(stored_otherwise, 8).plan(split_like(1, 1, 1))
    names = names_for(plan, rules("[{pattern: 'embedding.kernel', name: 't', transpose: true}]"))
    found = layout(strategy_checkpoint(plan, names), "t")
    assert (found.tensor_shape, found.tensor_map) == ((64, 256), (-1, 0))


def test_the_optimizer_shares_the_first_dimension_that_the_network_has(rules: Any) -> None:
    space = known_space(_two_layers, 8)
    entries = rules("[{pattern: 'a.w', name: 'a.w', transpose: true}]")
    shared = 0
    for seed in range(200):
        draw = random.Random(seed)
        plan = space.plan(drawn(draw), draw)
        if check_strategy(plan):
            continue
        names = names_for(plan, entries)
        before, after = strategy_checkpoint(plan), strategy_checkpoint(plan, names)
        old, new = layout(before, "a.w"), layout(after, "a.w")
        assert old.opt_weight_shard_size == new.opt_weight_shard_size
        shared += bool(new.opt_weight_shard_size)
        rest = next(t.layout for t in renamed(plan, names).parameters if t.name == "a.w")
        assert resting_slices(new) == planned_slices(plan, rest, (256, 512), (1, 0))
    assert shared >= 10


def test_a_matrix_that_the_network_keeps_in_parts_has_a_layout_for_each(rules: Any) -> None:
    plan = known_space(_two_layers, 8).plan(split_like(2, 2, 2))
    names = names_for(plan, rules("[{pattern: 'a.w', name: [q, k], transpose: true}]"))
    found = strategy_checkpoint(plan, names)
    assert [each.key for each in found.strategies] == ["MatMul_q", "MatMul_k", "MatMul_b.w"]
    assert item(found, "MatMul_k").cuts == ((1, 1), (8, 1))
    assert layout(found, "q").tensor_shape == (256, 256)
    assert replace(layout(found, "q"), name="k") == layout(found, "k")


def test_parts_that_are_not_cut_alike_are_refused(rules: Any) -> None:
    plan = known_space(_two_layers, 8).plan(split_like(2, 2, 2))
    names = names_for(plan, rules("[{pattern: 'a.w', name: [q, k, v]}]"))
    with pytest.raises(ExportError, match="has no 3 equal parts"):
        strategy_checkpoint(plan, names)


def test_the_operator_that_reads_a_parameter_may_have_another_name(rules: Any) -> None:
    plan = known_space(language_model, 8).plan(split_like(0, 0, 1))
    names = names_for(plan, rules("[{pattern: up.bias, name: up.bias, primitive: BiasAdd}]"))
    plain, found = strategy_checkpoint(plan), strategy_checkpoint(plan, names)
    assert item(plain, "Add_up.bias").cuts == ((4, 2, 1), (1,))
    assert item(found, "BiasAdd_up.bias").cuts == ((8, 1), (1,))
    matrices = [layout(each, "up.bias").device_matrix for each in (plain, found)]
    assert matrices == [(4, 2), (8,)]
    assert resting_slices(layout(found, "up.bias")) == resting_slices(layout(plain, "up.bias"))


# What is refused


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[{pattern: 'c', name: d}]", "the pattern 'c' matches no parameter"),
        ("[{pattern: 'a', name: d}]", "the pattern 'a' matches no parameter"),
        ("[{pattern: '.*', name: '\\g<0>'}, {pattern: 'a.w', name: q}]", "'a.w' is matched twice"),
        ("[{pattern: '.*', name: one}]", "are both called 'one'"),
        ("[{pattern: 'a.w', name: b.w}]", "are both called 'b.w'"),
        ("[{pattern: 'a.w', name: 0-a}]", "would be called '0-a'"),
        ("[{pattern: 'a.w', name: '\\1'}]", "does not work: invalid group reference"),
        ("[{pattern: '(', name: x}]", "does not work: missing"),
        ("[{pattern: 'a.w'}]", "an entry has a `pattern` and a `name`"),
        ("[{pattern: 'a.w', name: x, transposed: true}]", "unknown key 'transposed'"),
        ("[{pattern: 'a.w', name: x, transpose: 1}]", "are true or false"),
        ("[{pattern: 3, name: x}]", "are texts"),
        ("[{pattern: 'a.w', name: x, primitive: 'a b'}]", "the name of an operator"),
        ("[{pattern: 'a.w', name: []}]", "are texts"),
        ("[3]", "an entry has a `pattern` and a `name`"),
        ("{}", "holds a list of entries"),
        ("", "holds a list of entries"),
        ("[", "neither YAML nor JSON"),
        ("- \t- a: [", "neither YAML nor JSON"),
    ],
)
def test_what_does_not_fit_is_refused(text: str, what: str, rules: Any) -> None:
    with pytest.raises(ExportError) as caught:
        names_for(two(), rules(text))
    message = str(caught.value)
    assert what in message
    assert "  at:  " in message
    assert "names.yaml" in message
    assert "  fix: " in message


def test_a_vector_cannot_be_transposed(rules: Any) -> None:
    plan = known_space(language_model, 8).best
    entries = rules("[{pattern: 'norm.bias', name: b, transpose: true}]")
    with pytest.raises(ExportError, match="1 dimensions, only a matrix can be transposed"):
        names_for(plan, entries)


def test_a_file_that_is_not_there_is_refused_with_the_networks_that_are_known() -> None:
    with pytest.raises(ExportError, match="one of bert, gpt2, llama, resnet"):
        name_rules("no such file")


def test_an_entry_may_be_allowed_to_match_nothing(rules: Any) -> None:
    assert names_for(two(), rules("[{pattern: c, name: d, optional: true}]")).new == {}


# Networks that are known

KNOWN = [
    ("bert", "bert_base", "bert.bert_encoder.encoder.blocks.3.output.mapping.weight", (768, 3072)),
    ("gpt2", "gpt2_small", "backbone.blocks.11.attention.dense3.weight", (768, 768)),
    ("llama", "llama3_8b_op24", "model.layers.31.feed_forward.w2.weight", (4096, 14336)),
    ("resnet", "resnet50", "layer4.0.down_sample_layer.1.gamma", (2048,)),
]


def test_every_known_network_is_tested() -> None:
    assert bundled_names() == tuple(sorted(name for name, *_ in KNOWN))


@pytest.mark.slow
@pytest.mark.parametrize(("network", "model", "name", "shape"), KNOWN, ids=[k[0] for k in KNOWN])
def test_known_names_cover_the_model_whole(
    network: str, model: str, name: str, shape: tuple[int, ...]
) -> None:
    graph = import_onnx(MODELS / f"{model}.onnx.gz")
    machine = named_cluster("atlas-800t-a2", 16)
    plan = search(graph, machine, SearchRequest(batch=32, time_limit_s=None))
    names = names_for(plan, name_rules(network))
    assert set(names.new) == {t.source or t.name for t in plan.graph.parameters}
    found = strategy_checkpoint(plan, names)
    assert layout(found, name).tensor_shape == shape
    assert len({each.name for each in found.layouts}) == len(found.layouts)


def test_a_scope_is_renamed_as_the_parameters_beneath_it() -> None:
    new = {
        "m.h.0.attn.q.weight": ("b.0.attention.wq.weight",),
        "m.h.0.attn.o.weight": ("b.0.attention.wo.weight",),
        "m.h.0.mlp.up.weight": ("b.0.output.mapping.weight",),
        "m.ln.weight": ("final.gamma",),
    }
    names = Names(new, frozenset())
    assert renamed_scope("m.h.0.attn", names) == "b.0.attention"
    assert renamed_scope("m.h.0", names) == "b.0"
    assert renamed_scope("m.h.0.mlp.up", names) == "b.0.output.mapping"
    assert renamed_scope("m.h.0.mlp", names) == "b.0.output"
    assert renamed_scope("m.h.0.mlp.act", names) == "b.0.output.act"
    assert renamed_scope("m.ln", names) == "final"
    assert renamed_scope("", names) == ""

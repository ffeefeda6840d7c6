"""The script that sets MindSpore up: modes, fusion, symbols, and what MindSpore refuses."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from onnx import parser

from costmodel.memory import Optimizer
from exporters.errors import ExportError
from exporters.mindspore.context import MODES, NEW_MODES, context_of
from exporters.mindspore.fusion import (
    index_splits,
    message_bytes,
    parse_fusions,
    segments,
    slice_bytes,
)
from exporters.mindspore.hybrid import own_collectives, slices
from exporters.mindspore.script import SETTINGS, old_arguments, script
from exporters.mindspore.symbols import local_symbol, symbol_calls
from exporters.settings import Made, Settings
from importers.onnx import import_onnx
from ir.plan import Plan
from ir.symbols import parse_symbol
from planner.request import SearchRequest
from planner.requests.symbols import LocalSymbol, split_symbols
from planner.search import search
from tests.cli.conftest import MLP
from topology.catalogue import named_cluster

pytestmark = pytest.mark.fast

Planned = Callable[..., Plan]
PINS = (("MatMul_0", ((2, 4), (4, 1))), ("MatMul_2", ((1, 8), (8, 1))))


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Planned:
    """Plans the perceptron of `batch` rows for eight devices, its products in MindSpore's way."""
    path = tmp_path_factory.mktemp("script") / "mlp.onnx"
    text = MLP.replace("ROWS", "batch").replace("bfloat16", "float")
    path.write_bytes(parser.parse_model(text).SerializeToString())

    def plan(batch: Any = 64, **request: Any) -> Plan:
        asked = SearchRequest(optimizer=Optimizer.SGD, bind=(("batch", batch),), **request)
        graph = import_onnx(path, {"batch": batch})
        return search(graph, named_cluster("atlas-800t-a2", 8), asked)

    return plan


@pytest.fixture(scope="module")
def plan(planned: Planned) -> Plan:
    return planned(pins=PINS)


@pytest.fixture(scope="module")
def dynamic(planned: Planned) -> Plan:
    return planned(parse_symbol("128..512/64"), pins=PINS)


def made(plan: Plan, **given: str) -> Made:
    return script(plan, Settings(given, SETTINGS))


def arguments(plan: Plan, **given: str) -> dict[str, object]:
    return old_arguments(context_of(plan, Settings(given, SETTINGS)))


def refused(plan: Plan, **given: str) -> str:
    with pytest.raises(ExportError) as error:
        made(plan, **given)
    return str(error.value)


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_is_a_module(mode: str, plan: Plan) -> None:
    tree = ast.parse(made(plan, mode=mode).files[""])
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert "old_interface" in functions
    assert ("new_interface" in functions) == (mode in NEW_MODES)
    assert ("mark_slices" in functions) == (mode == "hybrid_parallel")
    found = arguments(plan, mode=mode)
    assert ("search_mode" in found) == ("programming" in mode or "propagation" in mode)
    assert ("dataset_strategy" in found) == (mode in MODES[:4])
    propagates = "sharding_propagation" in mode
    assert ("follow=True" in (ast.get_docstring(tree) or "")) == propagates


@pytest.mark.parametrize(
    ("given", "mode"),
    [
        ({"parallel_mode": "semi_auto_parallel"}, "semi_auto"),
        ({"parallel_mode": "auto_parallel"}, "recursive_programming"),
        ({"parallel_mode": "hybrid_parallel"}, "hybrid_parallel"),
        ({"search_mode": "sharding_propagation"}, "sharding_propagation"),
        ({"parallel_mode": "auto_parallel", "search_mode": "dynamic_programming"},
         "dynamic_programming"),
        ({"mode": "sharding_propagation", "search_mode": "sharding_propagation"},
         "sharding_propagation"),
    ],
)  # fmt: skip
def test_modes_may_be_told_in_mindspores_words(
    given: dict[str, str], mode: str, plan: Plan
) -> None:
    assert made(plan, **given).files == made(plan, mode=mode).files


def test_what_is_set_is_passed_on(plan: Plan) -> None:
    found = arguments(
        plan, parameter_broadcast="true", gradients_mean="false", pipeline_stages="2",
        enable_parallel_optimizer="true", dataset_strategy="full_batch",
    )  # fmt: skip
    assert found["parameter_broadcast"] is True
    assert found["gradients_mean"] is False
    assert found["pipeline_stages"] == 2
    assert found["enable_parallel_optimizer"] is True
    assert found["dataset_strategy"] == "full_batch"
    assert "enable_parallel_optimizer" not in arguments(plan, enable_parallel_optimizer="false")
    text = made(plan, max_device_memory="28GB", device="GPU", strategy_file="none").files[""]
    assert "ms.runtime.set_memory(max_size='28GB')" in text
    assert "max_device_memory='28GB'" in text
    assert "ms.set_device('GPU')" in text
    assert "load_param_strategy_file" not in text


@pytest.mark.parametrize(
    ("older", "today"),
    [
        ({"full_batch": "true"}, {"dataset_strategy": "full_batch"}),
        ({"full_batch": "false"}, {"dataset_strategy": "data_parallel"}),
        ({"full_batch": "true", "dataset_strategy": "full_batch"},
         {"dataset_strategy": "full_batch"}),
        ({"all_reduce_fusion_config": "[1]"}, {"comm_fusion": "allreduce=index:1"}),
    ],
)  # fmt: skip
def test_older_words_say_what_todays_do(
    older: dict[str, str], today: dict[str, str], plan: Plan
) -> None:
    assert made(plan, **older).files == made(plan, **today).files


def test_an_old_release_has_the_old_names(plan: Plan) -> None:
    old, new = (made(plan, release=each) for each in ("1.10", "2.2.14"))
    assert '"strategy_ckpt_load_file": str(' in old.files[""]
    assert '"strategy_ckpt_config": {' in new.files[""]
    for each in (old, new):
        assert "AutoParallel" not in each.files[""]
        assert any("from 2.5 on" in note for note in each.notes)
    assert made(plan, release="2.10").files == made(plan).files


def test_a_search_is_told_its_parameters(plan: Plan) -> None:
    given = "elementwise_op_strategy_follow=true;algo_approxi_epsilon=0.05"
    text = made(plan, mode="sharding_propagation", algo_parameters=given).files[""]
    call = "set_algo_parameters(elementwise_op_strategy_follow=True, algo_approxi_epsilon=0.05)"
    assert text.count(call) == 2  # in either interface
    whole = replace(plan, request={**plan.request, "fully_use_devices": True})
    text = made(whole, mode="dynamic_programming").files[""]
    assert text.count("set_algo_parameters(fully_use_devices=True)") == 1
    assert "set_algo_parameters" not in made(whole).files[""]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"full_batch": "true", "dataset_strategy": "((8,1),)"}, "leave one of them out"),
        ({"full_batch": "maybe"}, "neither true nor false"),
        ({"all_reduce_fusion_config": "a"}, "are no indices"),
        ({"release": "3.1"}, "no release that is known"),
        ({"release": "2"}, "no release that is known"),
        ({"algo_parameters": "fully_use_devices=true"}, "they are of a search"),
        ({"mode": "dynamic_programming", "algo_parameters": "speed=1"}, "no parameter"),
        (
            {"mode": "dynamic_programming", "algo_parameters": "tensor_slice_align_size=2000"},
            "is no value of",
        ),
        ({"mode": "auto"}, "is no value of mode\n"),
        ({"parallel_mode": "auto"}, "is no value of parallel_mode\n"),
        ({"search_mode": "annealing"}, "is no value of search_mode\n"),
        ({"mode": "semi_auto", "search_mode": "sharding_propagation"}, "takes no search_mode"),
        ({"mode": "semi_auto", "parallel_mode": "auto_parallel"}, "is given twice"),
        ({"mode": "data_parallel", "pipeline_stages": "2"}, "no pipeline in the mode"),
        ({"mode": "dynamic_programming", "pipeline_stages": "2"}, "no pipeline in the mode"),
        ({"pipeline_stages": "3"}, "3 stages do not divide 8"),
        ({"pipeline_scheduler": "seqsmartvpp"}, "even number of stages"),
        ({"mode": "stand_alone", "parameter_broadcast": "true"}, "sends no parameters"),
        ({"dataset_strategy": "((3,1),)"}, "does not split 3 ways"),
        ({"dataset_strategy": "((8,),)"}, "no cuts of the inputs"),
        ({"dataset_strategy": "((8,1),(8,1))"}, "no cuts of the inputs"),
        ({"dataset_strategy": "8"}, "are no cuts"),
        ({"dataset_strategy": "((16,1),)"}, "do not divide 8"),
        ({"labels": "__import__('os')"}, "are no cuts"),
        ({"labels": "(" * 3000}, "are no cuts"),
        ({"label_types": "int32"}, "are no element types of 0 labels"),
        ({"labels": "((8,),)", "label_types": "int32,x"}, "are no element types of 1 labels"),
        ({"labels": "((8,),)", "label_types": "int32)\nimport os"}, "unprintable"),
        ({"max_device_memory": "all"}, "is no size"),
        ({"comm_fusion": "allreduce=size"}, "is no size in MB"),
        ({"comm_fusion": "allreduce=size:0"}, "is no size in MB"),
        ({"comm_fusion": "allreduce=auto:3"}, "takes no number"),
        ({"comm_fusion": "allgather=index:1"}, "has no mode index"),
        ({"comm_fusion": "allreduce=index:1,1"}, "do not ascend"),
        ({"comm_fusion": "allreduce=index:2"}, "index 2 of 2 parameters"),
        ({"comm_fusion": "broadcast=auto"}, "is no fusion"),
        ({"comm_fusion": "allreduce=auto;allreduce=size:3"}, "stands twice"),
    ],
)
def test_what_mindspore_refuses(given: dict[str, str], words: str, plan: Plan) -> None:
    text = refused(plan, **given)
    assert words in text
    assert "fix:" in text


def test_what_is_told(plan: Plan) -> None:
    def notes(**given: str) -> str:
        return " ".join(made(plan, **given).notes)

    assert "reads no strategy file" in notes(mode="recursive_programming")
    assert "applies no splits" in notes(mode="data_parallel")
    assert "assigns cells to stages" in notes(pipeline_stages="2")
    assert "for all-reduces of the world group" in notes(comm_fusion="allreduce=index:1")
    assert "more than one dimension of an input" in notes(dataset_strategy="((4,2),)")
    assert "have more parts than" in notes(dataset_strategy="((1,1),)", labels="((8,),)")


def test_recursive_programming_wants_a_power_of_two(plan: Plan) -> None:
    other = replace(plan, rank_order=tuple(range(24)))
    given = {"dataset_strategy": "full_batch", "enable_parallel_optimizer": "false"}
    assert "a power of two, not 24" in refused(other, mode="recursive_programming", **given)


def test_fusion_by_index_finds_its_indices(plan: Plan) -> None:
    assert index_splits([40.0, 40.0, 9.0, 70.0, 1.0], 64) == (1, 3)
    assert index_splits([70.0, 70.0, 1.0], 64) == (1,), "MindSpore takes no index 0"
    assert index_splits([1.0], 64) == ()
    assert segments(5, (1, 3)) == ((0, 1), (2, 3), (4, 4))
    assert segments(4, (3,)) == ((0, 3),)
    (found,) = parse_fusions("allreduce=index", plan) or ()
    assert found.config == ()
    held = {t.name: slice_bytes(t, plan) for t in plan.parameters}
    assert held == {"up": 256 * 1024 * 4 / 4, "down": 1024 * 256 * 4 / 8}


def test_fusion_says_what_becomes_of_the_messages(plan: Plan) -> None:
    first = plan.collectives[0]
    sizes = [30.0, 40.0, 50.0, 1.0]
    names = [f"w{i}" for i in range(len(sizes))]
    collectives = tuple(
        replace(
            first, kind="all_reduce", cause="gradient sync", axes=axes, tensor=name,
            nbytes=size * 2**20,
        )
        for axes in (("a",), ("b",))
        for name, size in zip(names, sizes, strict=True)
    )  # fmt: skip
    tensors = tuple(replace(plan.parameters[0], name=name) for name in names)
    crowd = replace(plan, collectives=collectives, tensors=tensors)

    def fused(text: str) -> list[float]:
        (fusion,) = parse_fusions(f"allreduce={text}", crowd) or ()
        alone, found = message_bytes(crowd, fusion)
        assert [size / 2**20 for size in alone] == sizes * 2
        half = len(found) // 2
        assert found[:half] == found[half:], "each group by itself"
        return [size / 2**20 for size in found[:half]]

    assert fused("auto") == [91.0, 30.0], "1 and 50 and 40, then 30"
    assert fused("size:32") == [51.0, 40.0, 30.0]
    assert fused("index:1,2") == [70.0, 50.0, 1.0]
    assert fused("index:3") == [121.0]


def test_dynamic_sizes_are_those_of_one_rank(dynamic: Plan) -> None:
    found = made(dynamic, dataset_strategy="data_parallel")
    assert "size_batch_of_8 = ms.Symbol(min=16, max=64, divisor=8, unique=True)" in found.files[""]
    assert "ms.Tensor(shape=[size_batch_of_8, 256], dtype=ms.float32)" in found.files[""]
    whole = made(dynamic, dataset_strategy="full_batch").files[""]
    assert "size_batch = ms.Symbol(min=128, max=512, divisor=64, unique=True)" in whole
    assert any("kernel by kernel only" in note for note in found.notes)
    assert "takes no dynamic shapes" in refused(dynamic, mode="sharding_propagation")


@pytest.mark.parametrize(
    "symbol",
    [
        LocalSymbol(divisor=8), LocalSymbol(divisor=8, max=64), LocalSymbol(divisor=8, min=24),
        LocalSymbol(divisor=8, remainder=3), LocalSymbol(divisor=4, remainder=2, max=62, min=10),
        LocalSymbol(max=40),
    ],
    ids=str,
)  # fmt: skip
def test_a_symbol_comes_back_as_it_was_given(symbol: LocalSymbol, planned: Planned) -> None:
    plan = planned(symbol.whole(8))
    calls, _ = symbol_calls(plan, {"x": (8, 1)})
    (text,) = calls.values()
    _, found = split_symbols([f"batch=Symbol({text})"])
    assert replace(found["batch"], unique=False).whole(8) == symbol.whole(8)
    assert ("max" in text) == (symbol.max > symbol.min)


def test_labels_are_told_with_the_inputs(dynamic: Plan) -> None:
    rows = "ms.Tensor(shape=[size_batch_of_{}, {}], dtype=ms.{})".format

    def said(**given: str) -> str:
        return made(dynamic, **given).files[""].rpartition("network.set_inputs(")[2]

    x = rows(2, "128", "float32")
    assert said(dataset_strategy="((2,2),)") == f"{x})\n"
    labels = {"labels": "((8,),(4,2))", "label_types": "int64, float32"}
    first = "ms.Tensor(shape=[size_batch_of_8], dtype=ms.int64)"
    expected = f"{x}, {first}, {rows(4, 'None', 'float32')})\n"
    assert said(dataset_strategy="((2,2),)", **labels) == expected
    whole = said(dataset_strategy="full_batch", labels="((8,),)")
    assert whole.endswith("ms.Tensor(shape=[size_batch], dtype=ms.int32))\n")
    each = said(dataset_strategy="data_parallel", labels="((1,),)")
    assert each.endswith("ms.Tensor(shape=[size_batch_of_8], dtype=ms.int32))\n")
    told = made(dynamic, labels="((8,),)").files[""]
    assert "Tell the cell that takes the labels too which sizes are not fixed." in told
    assert "size_batch_of_8 = ms.Symbol(min=16, max=64, divisor=8, unique=True)" in told


def test_a_symbol_with_a_remainder_is_divided_too(dynamic: Plan) -> None:
    assert str(local_symbol(parse_symbol("24..200/16+8"), 8)) == "3..25/2+1"
    with pytest.raises(ExportError, match="do not all split 8 ways"):
        local_symbol(parse_symbol("64..128/4"), 8)
    with pytest.raises(ExportError, match="do not all split 8 ways"):
        local_symbol(parse_symbol("64..128/16+4"), 8)
    calls, shapes = symbol_calls(dynamic, {"x": (1, 2)})
    assert shapes == {"x": ["size_batch", "128"]}
    assert list(calls) == ["size_batch"]


def test_a_fixed_model_has_no_symbols(plan: Plan) -> None:
    assert "Symbol" not in made(plan).files[""]


def test_hybrid_networks_hold_the_collectives(plan: Plan) -> None:
    found = own_collectives(plan)
    first, second = (c for c in found if c.primitive == "AllReduce" and c.operand < 0)
    assert (first.operator, second.operator) == ("MatMul_0", "MatMul_2")
    assert first.groups == ((0, 1, 2, 3), (4, 5, 6, 7)), "rows in two, sums over four"
    assert first.nbytes == 64 * 1024 * 4 / 2
    assert second.groups == (tuple(range(8)),)
    forward = [c for c in plan.collectives if c.cause in {"forward", "inside operators"}]
    assert any(c.cause == "activation gradient" for c in plan.collectives)
    assert len(found) == len(forward), "what the backward pass sends follows from these"
    order = [c.operator for c in found]
    assert order.index("MatMul_0") < order.index("MatMul_2")
    assert slices(plan) == {"up": (64, 1024), "down": (128, 256)}


def test_names_are_hostile(plan: Plan, tmp_path: Path) -> None:
    graph = replace(plan.graph, name='x"""\nimport os')
    text = made(replace(plan, graph=graph), strategy_file="a'\"b.ckpt").files[""]
    names: dict[str, Any] = {}
    tree = ast.parse(text)
    assert not [n for n in ast.walk(tree) if isinstance(n, ast.alias) and n.name == "os"]
    tree.body = [n for n in tree.body if not isinstance(n, ast.Import | ast.ImportFrom)]
    here = {"Path": Path, "__file__": str(tmp_path / "s.py")}
    exec(compile(tree, "s.py", "exec"), {**here}, names)
    assert names["OLD"]["strategy_ckpt_config"]["load_file"].endswith("a'\"b.ckpt")
    assert made(plan) == made(plan)

"""One MFU: the same model FLOPs and the same peak wherever a step's speed is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import data
from costmodel.simulation.effects import Effects
from costmodel.simulation.layout_simulation import load_of_run, simulate_layout
from costmodel.simulation.plan_simulation import simulate_plan
from importers.onnx import import_onnx
from importers.sizes import configuration
from ir.normalise import normalise
from ir.throughput import Load, Rates, forward_flops, rates_of, tokens_of
from planner.request import SearchRequest
from planner.requests.conventional_layouts import run_of_layout
from planner.requests.options.simulations import LayoutOptions, RankingOptions
from planner.search import search
from planner.whatif.layout_ranking import ranked
from planner.whatif.workbench import result_of
from tests.builders import attention_block, mlp
from topology.catalogue import named_chip, named_cluster

NAME = "llama3-8b"


def test_sizes_and_operators_of_one_model_have_the_same_model_flops() -> None:
    """By its sizes and by its graph, within 0.1 %; of PaLM's formula both."""
    path = Path(str(data.files("models", "llama3_8b.onnx.gz")))
    graph = normalise(import_onnx(path))
    tokens = tokens_of(graph)
    sequence = tokens // graph.tensors[graph.inputs[0]].dims[0]
    layout = f"micro=1,batch=1,seq={sequence}"
    sizes = load_of_run(
        run_of_layout(LayoutOptions(layout=layout, cluster="dgx-h100"), configuration(NAME), NAME)
    )
    assert 3 * forward_flops(graph) / tokens == pytest.approx(sizes.flops / sequence, rel=1e-3)
    weights = 32 * (4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336) + 4096 * 128256
    assert sizes.flops / sequence == pytest.approx(
        6 * weights + 12 * 32 * 4096 * sequence, rel=1e-9
    )


@pytest.mark.parametrize("precision", ["bf16", "fp8", "fp32"])
def test_layouts_and_simulation_agree_on_the_utilisation_of_a_step(precision: str) -> None:
    """The same FLOPs, devices and peak: utilisation times time is one number."""
    asked = RankingOptions(devices=8, batch=8, cluster="dgx-h100", precision=precision)
    best = ranked(asked, configuration(NAME), NAME).best[0]
    options = LayoutOptions(layout=best.text, cluster="dgx-h100", precision=precision)
    found = simulate_layout(run_of_layout(options, configuration(NAME), NAME), Effects())
    assert found.load == best.rates.load
    ratio = found.rates.utilisation / best.rates.utilisation
    assert ratio == pytest.approx(best.rates.step_s / found.step_s, rel=1e-12)
    assert precision in found.load.peak_text


def test_search_simulation_and_sweep_agree_on_a_plan() -> None:
    plan = search(mlp(2), named_cluster("dgx-h100", 8), SearchRequest(target="generic"))
    simulated, planned = simulate_plan(plan, Effects()), rates_of(plan)
    assert simulated.load == planned.load
    result = result_of(plan)
    assert result.utilisation == planned.utilisation
    assert result.peak == planned.load.peak_text


def test_the_peak_is_that_of_the_type_in_which_products_run() -> None:
    """A V100 has no bfloat16: its products run in the next type that has a rate."""
    assert named_chip("v100_sxm2_32g").product_type("bfloat16") == "float16"
    assert named_chip("h100_sxm_80g").product_type("float8e4m3fn") == "float8"
    plan = search(attention_block(), named_cluster("dgx-1v", 2), SearchRequest(target="generic"))
    assert rates_of(plan).load.peak_text == "15.7 TFLOP/s fp32"


def test_inference_counts_the_forward_pass_alone() -> None:
    graph, cluster = mlp(2), named_cluster("dgx-h100", 2)
    training, inference = (
        rates_of(search(graph, cluster, SearchRequest(target="generic", training=on))).load
        for on in (True, False)
    )
    assert training.flops == 3 * inference.flops


def test_rates_are_said_in_words_with_the_peak() -> None:
    load = Load(8, 16, 1600, 8e15, 1e15, 0, "bf16")
    assert Rates(load, 2.0).words == (
        "8 samples/s", "800 tokens/s", "100 tokens/s per device", "MFU 50.0 % of 1,000 TFLOP/s bf16"
    )  # fmt: skip
    assert Rates(replace(load, tokens=0, peak_flops=0), 2.0).words == ("8 samples/s",)
    assert Rates(load, 0.0).words == ()

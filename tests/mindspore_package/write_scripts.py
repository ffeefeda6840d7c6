"""Write the scripts that MindSpore is asked to run: context set-up, launch, parameter server.

python -m tests.mindspore_package.write_scripts EXAMPLE FOLDER      EXAMPLE has a plan.json
"""

from __future__ import annotations

import runpy
import sys
from dataclasses import replace
from pathlib import Path

from cli.main import app
from exporters.formats import FORMATS
from exporters.settings import Settings
from importers.mindir.reading import import_mindir
from ir.plan import Plan
from ir.plan_file import read_plan
from planner.request import SearchRequest
from planner.search import search
from topology.catalogue import named_cluster

EXAMPLES = Path(__file__).parents[2] / "examples" / "mindspore"
MINDIR = Path(__file__).parents[1] / "data" / "mindir" / "mlp.mindir"
PINS = (
    ("Default/up-Dense/MatMul-op0", ((2, 1), (4, 1))),
    ("Default/down-Dense/MatMul-op0", ((2, 4), (1, 4))),
)
INFERENCE = {
    "mindspore": "strategy.ckpt",
    "mindspore-apply": "apply_mindspore.py",
    "mindspore-inference": "inference_mindspore.py",
    "mindspore-script": "mindspore_script.py",
}
CONTEXTS: dict[str, dict[str, str]] = {
    "plain": {},
    "propagation": {"mode": "sharding_propagation", "parameter_broadcast": "true"},
    "recursive": {"mode": "recursive_programming", "dataset_strategy": "full_batch"},
    "dynamic_programming": {"mode": "dynamic_programming", "gradients_mean": "false"},
    "data": {"mode": "data_parallel", "comm_fusion": "allreduce=index:1"},
    "hybrid": {"mode": "hybrid_parallel"},
    "alone": {"mode": "stand_alone"},
    "auto_fusion": {"comm_fusion": "allreduce=auto;allgather=auto;reducescatter=auto"},
    "size_fusion": {"comm_fusion": "allreduce=size:32;allgather=size:16"},
    "no_fusion": {"comm_fusion": "off"},
    "pipeline": {"pipeline_stages": "2", "pipeline_scheduler": "gpipe"},
    "optimizer": {"enable_parallel_optimizer": "true"},
    "older": {"release": "1.10", "full_batch": "true", "max_device_memory": "28GB"},
    "search": {
        "mode": "dynamic_programming",
        "algo_parameters": "elementwise_op_strategy_follow=true;tensor_slice_align_size=32",
    },
    "labels": {"labels": "((16,1),)", "dataset_strategy": "((16,1),)"},
}


def main(example: Path, folder: Path) -> None:
    """Every script in a folder of its own."""
    plan = read_plan(example / "plan.json")
    contexts = folder / "contexts"
    contexts.mkdir(parents=True, exist_ok=True)
    (contexts / "strategy.ckpt").write_bytes((example / "strategy.ckpt").read_bytes())
    for name, given in CONTEXTS.items():
        write(plan, "mindspore-script", given, contexts, f"{name}.py")
    write(with_symbol(plan), "mindspore-script", {}, contexts, "symbols.py")
    write_dynamic(folder / "dynamic")
    write_inference(folder / "inference")
    write(plan, "launch", {"start": "msrun"}, folder / "launch")
    write(plan, "parameter-server", {"parameters": "*"}, folder / "servers", loosely=True)


def write_dynamic(folder: Path) -> None:
    """The tutorial's perceptron with rows of any number, planned as its README section says."""
    folder.mkdir(parents=True, exist_ok=True)
    build = runpy.run_path(str(EXAMPLES / "networks.py"))["network"]
    (folder / "mlp.onnx").write_bytes(build("dynamic_mlp").SerializeToString())
    arguments = ["search", str(folder / "mlp.onnx"), "--devices", "8", "--optimizer", "sgd"]
    arguments += ["--bind", "batch=Symbol(divisor=8)", "-o", str(folder)]
    for pin in (
        "matmul1=((2,4),(4,1))",
        "relu1=((4,1),)",
        "matmul2=((1,8),(8,1))",
        "relu2=((8,1),)",
    ):
        arguments += ["--pin", pin]
    app(arguments, standalone_mode=False)
    write(read_plan(folder / "plan.json"), "mindspore-script", {}, folder, "setup.py")


def write_inference(folder: Path) -> None:
    """The files of a perceptron that MindSpore exported, with its weights cut."""
    folder.mkdir(parents=True, exist_ok=True)
    request = SearchRequest(pins=PINS, dataset_strategy=((2, 1),))
    plan = search(import_mindir(MINDIR), named_cluster("atlas-800t-a2", 8), request)
    for form, name in INFERENCE.items():
        FORMATS[form].writer(plan, None)(folder / name)


def with_symbol(plan: Plan) -> Plan:
    """The same as if its rows were any multiple of 64 up to 256."""
    x = replace(plan.graph.tensors["x"], divisors=(64, 512))
    graph = replace(plan.graph, tensors={**plan.graph.tensors, "x": x})
    request = {**plan.request, "bind": [["rows", "64..256/64"]]}
    return replace(plan, graph=graph, request=request)


def write(
    plan: Plan,
    form: str,
    given: dict[str, str],
    folder: Path,
    name: str = "",
    *,
    loosely: bool = False,
) -> None:
    """The files of one format; `loosely` as if all parameters were whole."""
    if loosely:
        tensors = tuple(
            replace(t, used=None, layout=replace(t.layout, dims=tuple(() for _ in t.dims)))
            for t in plan.tensors
        )
        plan = replace(plan, tensors=tensors)
    known = FORMATS[form]
    assert known.make is not None
    folder.mkdir(parents=True, exist_ok=True)
    for own, text in known.make(plan, Settings(given, known.settings)).files.items():
        (folder / (own or name)).write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

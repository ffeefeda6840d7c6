"""Megatron-LM's own parser on the launch lines that we write, without a GPU.

    .venv-judges/bin/python -m benchmarks.megatron_parser Megatron-LM --each 20
    .venv-judges/bin/python -m benchmarks.megatron_parser Megatron-LM --launch

The folder is a checkout of the release that `data/recipes/megatron.yaml` names. The first command
parses and validates the lines of random legal layouts of twelve models, makes Megatron's
configuration of them, and holds degrees, world, batches and sizes against the layout. The second
runs a written file with bash and torchrun; every process parses its arguments and says what it is.
Triton is not there, torch compiles nothing, and a device says that it is a Hopper card.
"""
# ruff: noqa: TID251  torchrun and Megatron-LM tell each other things in the environment

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import logging
import os
import shlex
import subprocess
import sys
import tempfile
import types
import typing
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from costmodel.training.records import TrainingRun
from exporters.recipes.writing import recipe_files
from ir.recipes.table import framework
from planner.whatif.recipe_runs import in_layout, quantities_of
from planner.whatif.recipe_targets import expressed
from tests.recipes.drawn import MODELS, drawn

_SCRIPT = "pretrain_gpt.py"
_OWN = ("--mock-data", "--tokenizer-type", "NullTokenizer", "--no-rope-fusion")
"""Data and a tokenizer are every user's own; that fusion is of Transformer Engine."""


class _Absent(types.ModuleType):
    """A package of kernels that is not installed: its decorators change nothing."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []
        self.__version__ = "3.5.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _decorator


def _decorator(*given: Any, **_: Any) -> Any:
    return given[0] if len(given) == 1 and callable(given[0]) else lambda function: function


class _Finder(MetaPathFinder, Loader):
    """Finds triton, which wants a GPU's compiler."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        return (
            ModuleSpec(name, self, is_package=True) if name.partition(".")[0] == "triton" else None
        )

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return _Absent(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def arguments_module(source: str) -> Any:
    """`megatron.training.arguments` of a checkout, on a machine without a GPU."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    os.environ["NO_VCS_VERSION"] = "1"
    sys.path.insert(0, source)
    sys.meta_path.insert(0, _Finder())
    extensions = importlib.import_module("typing_extensions")
    vars(typing).setdefault("override", extensions.override)  # Megatron-LM is for Python 3.12
    torch: Any = importlib.import_module("torch")
    torch.compile = lambda function=None, **_: function or (lambda inner: inner)
    torch.cuda.get_device_capability = lambda *_: (9, 0)
    torch.cuda.get_device_properties = lambda *_: types.SimpleNamespace(major=9, minor=0)
    return importlib.import_module("megatron.training.arguments")


def written(each: int, seed: int) -> Iterator[tuple[TrainingRun, str]]:
    """Runs that Megatron-LM can say, each with its launch script."""
    found = framework("megatron")
    for model in MODELS:
        for own in drawn("megatron", model, each, seed):
            said = expressed(found, own, own.run.layout)
            if not said.refused:
                run = in_layout(own, said.run.layout)
                yield run, recipe_files(found, quantities_of(run))["train.sh"]


def words_of(script: str) -> tuple[dict[str, str], list[str], list[str]]:
    """What a script sets in the environment, the launcher with its arguments, and the rest."""
    lines = script.splitlines()
    exports = [line.removeprefix("export ") for line in lines if line.startswith("export ")]
    rest = "\n".join(line for line in lines if not line.startswith(("#", "export ")))
    words = shlex.split(rest.replace("\\\n", " "))
    at = words.index(_SCRIPT)
    return dict(text.split("=", 1) for text in exports), words[:at], words[at:]


def differences(arguments: Any, config: Any, run: TrainingRun) -> dict[str, tuple[Any, Any]]:
    """Where Megatron-LM and the layout disagree: its value and ours."""
    layout, model = run.layout, run.model
    parts = arguments.micro_batch_size * arguments.data_parallel_size
    both = {
        "world": (arguments.world_size, layout.devices),
        "tp": (arguments.tensor_model_parallel_size, layout.tp),
        "pp": (arguments.pipeline_model_parallel_size, layout.pp),
        "vpp": (config.virtual_pipeline_model_parallel_size or 1, layout.vpp),
        "cp": (arguments.context_parallel_size, layout.cp),
        "ep": (arguments.expert_model_parallel_size, layout.ep),
        "dp": (arguments.data_parallel_size, layout.dp),
        "micro-batch": (arguments.micro_batch_size, layout.micro_batch),
        "batch": (arguments.global_batch_size, layout.global_batch),
        "micro-batches": (arguments.global_batch_size // parts, layout.micro_batches),
        "sequence": (arguments.seq_length, layout.seq_len),
        "sequence parallel": (arguments.sequence_parallel, layout.sequence_parallel),
        "shared states": (bool(arguments.use_distributed_optimizer), layout.zero_stage > 0),
        "layers": (config.num_layers, model.layers),
        "hidden": (config.hidden_size, model.hidden),
        "heads": (config.num_attention_heads, model.heads),
        "key heads": (config.num_query_groups, model.kv_heads),
        "vocabulary": (arguments.vocab_size, model.vocab),
        "experts": (config.num_moe_experts or 0, model.experts),
        "type": (str(config.params_dtype), "torch.bfloat16"),
    }
    if model.experts:
        both["etp"] = (arguments.expert_tensor_parallel_size, layout.etp or layout.tp)
        both["expert width"] = (config.moe_ffn_hidden_size, model.expert_ffn)
        both["experts of a token"] = (config.moe_router_topk, model.experts_per_token)
    else:
        both["ffn"] = (config.ffn_hidden_size, model.ffn)
    return {name: pair for name, pair in both.items() if pair[0] != pair[1]}


def parsed(module: Any, script: str) -> tuple[Any, Any]:
    """Arguments and configuration that Megatron-LM makes of a script."""
    exports, launch, sys.argv = words_of(script)
    world = int(launch[launch.index("--nnodes") + 1])
    world *= int(launch[launch.index("--nproc-per-node") + 1])
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    os.environ.update(exports, WORLD_SIZE=str(world), RANK="0", LOCAL_RANK="0")
    arguments = module.parse_args()
    arguments.apply_rope_fusion = False  # it is of Transformer Engine, which wants a GPU
    module.validate_args(arguments)
    return arguments, module.core_transformer_config_from_args(arguments)


def outcome(module: Any, run: TrainingRun, script: str) -> str:
    """`agrees`, or in one line what Megatron-LM refuses or has otherwise."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            arguments, config = parsed(module, script)
    except SystemExit:
        return f"not parsed: {said.getvalue().strip().splitlines()[-1]}"
    except (AssertionError, ValueError, RuntimeError, NotImplementedError) as error:
        return f"refused: {error}"
    found = differences(arguments, config, run)
    return f"differs: {found}" if found else "agrees"


def hold(module: Any, each: int, seed: int) -> int:
    """Print how many lines agree, and why others do not; the count of others."""
    counts: Counter[str] = Counter()
    models: dict[str, str] = {}
    for run, script in written(each, seed):
        text = outcome(module, run, script)
        counts[text] += 1
        models.setdefault(text, run.model.name)
    for text, number in counts.most_common():
        print(f"{number} of {counts.total()}: {text} ({models[text]} first)")
    return counts.total() - counts["agrees"]


def start() -> None:
    """What the script of every process of `launch` does."""
    module = arguments_module(os.environ["MEGATRON"])
    with contextlib.redirect_stdout(io.StringIO()):
        arguments = module.parse_and_validate_args()
        config = module.core_transformer_config_from_args(arguments)
    names = ("tensor_model", "pipeline_model", "context", "expert_model", "data")
    degrees = ", ".join(f"{n} {getattr(arguments, f'{n}_parallel_size')}" for n in names)
    print(
        f"rank {arguments.rank} of {arguments.world_size}: {degrees}, batch "
        f"{arguments.global_batch_size}, {config.num_layers} layers",
        flush=True,
    )


def launch(source: str, layout: str, model: str) -> int:
    """Write a layout with `planner`, run the file with bash, and print what its processes say."""
    with tempfile.TemporaryDirectory() as folder:
        own = (
            sys.executable, "-m", "cli", "simulate", "--layout", layout, model, "--cluster", "h100",
            "--recipe", "megatron", "-o", folder,
        )  # fmt: skip
        subprocess.run(own, check=True, stdout=subprocess.DEVNULL)
        Path(folder, _SCRIPT).write_text(
            "import benchmarks.megatron_parser as own\n\nown.start()\n"
        )
        script = Path(folder, "train.sh")
        script.write_text(script.read_text().rstrip() + " " + shlex.join(_OWN) + "\n")
        return subprocess.run(
            ("bash", "train.sh"), cwd=folder, env=_environment(source), check=False
        ).returncode


def _environment(source: str) -> Mapping[str, str]:
    here = str(Path(__file__).resolve().parents[1])
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "MEGATRON": source, "PYTHONPATH": here, "PATH": path}


def main(given: Sequence[str] | None = None) -> int:
    """Run what the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", help="checkout of Megatron-LM")
    parser.add_argument("--each", type=int, default=20, help="layouts of each of twelve models")
    parser.add_argument("--seed", type=int, default=9)
    parser.add_argument("--launch", action="store_true", help="run one file under torchrun")
    parser.add_argument("--layout", default="tp=2,pp=2,dp=1,batch=4,micro=1,zero=1,seq=4096")
    parser.add_argument("--model", default="qwen3-8b")
    asked = parser.parse_args(given)
    source = str(Path(asked.source).resolve())
    if asked.launch:
        return launch(source, asked.layout, asked.model)
    return int(bool(hold(arguments_module(source), asked.each, asked.seed)))


if __name__ == "__main__":
    sys.exit(main())

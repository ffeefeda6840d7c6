"""The frameworks themselves read the files that we write, and agree on degrees and batches.

Each test is of one package and is passed over where it is not installed; none needs an accelerator.
Megatron-LM's own parser is in no package (`benchmarks.megatron_parser` runs it): its arguments are
held against the fields of TransformerConfig and of DistributedDataParallelConfig, to which it
copies them.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from costmodel.training.records import TrainingRun
from exporters.recipes.writing import recipe_files
from ir.recipes.table import framework
from planner.whatif.recipe_runs import in_layout, quantities_of
from planner.whatif.recipe_targets import expressed
from tests.recipes.drawn import drawn

pytestmark = pytest.mark.filterwarnings("ignore")
"""Packages warn of what they miss on a machine without accelerators."""

MODELS = ("llama3-8b", "mixtral-8x7b", "qwen3-8b")
EACH = 12


def _written(name: str) -> Iterator[tuple[TrainingRun, dict[str, str]]]:
    """Runs that a framework can say, with their files."""
    for model in MODELS:
        for own in drawn(name, model, EACH, seed=7):
            said = expressed(framework(name), own, own.run.layout)
            if not said.refused:
                run = in_layout(own, said.run.layout)
                yield run, recipe_files(framework(name), quantities_of(run))


def _arguments(script: str) -> dict[str, Any]:
    """What stands behind the script's name, as argparse would take it."""
    words = shlex.split(script.replace("\\\n", " "), comments=True)
    words = words[words.index("pretrain_gpt.py") + 1 :]
    found: dict[str, Any] = {}
    for word, behind in zip(words, [*words[1:], "--"], strict=True):
        if word.startswith("--"):
            name = word[2:].replace("-", "_")
            found[name] = True if behind.startswith("--") else behind
    return found


_RENAMED = {
    "num_experts": "num_moe_experts", "group_query_attention": None, "seq_length": None,
    "micro_batch_size": None, "global_batch_size": None, "vocab_size": None,
    "use_distributed_optimizer": None, "use_megatron_fsdp": None, "ckpt_format": None,
    "data_parallel_sharding_strategy": None, "swiglu": None, "optimizer": None,
    "untie_embeddings_and_output_weights": None, "overlap_grad_reduce": None,
    "overlap_param_gather": None, "num_distributed_optimizer_instances": None,
    "num_virtual_stages_per_pipeline_rank": "virtual_pipeline_model_parallel_size",
    "pipeline_model_parallel_layout": None, "attention_backend": None,
    "disable_bias_linear": None, "max_position_embeddings": None, "position_embedding_type": None,
}  # fmt: skip
"""Arguments of Megatron-LM that are no field of TransformerConfig of the same name."""


def test_megatron_core_takes_the_arguments() -> None:
    torch = pytest.importorskip("torch")
    ddp = pytest.importorskip("megatron.core.distributed").DistributedDataParallelConfig
    core = pytest.importorskip("megatron.core.transformer").TransformerConfig
    parts_of = pytest.importorskip(
        "megatron.core.transformer.pipeline_parallel_layer_layout"
    ).PipelineParallelLayerLayout.parse_str_to_list
    known = {field.name for field in dataclasses.fields(core)}
    sharing = {field.name for field in dataclasses.fields(ddp)}
    assert {"num_distributed_optimizer_instances", "overlap_grad_reduce"} <= sharing
    for run, files in _written("megatron"):
        layout = run.layout
        stated = _arguments(files["train.sh"])
        fields: dict[str, Any] = {}
        for name, value in stated.items():
            own = _RENAMED.get(name, name)
            if own is not None:
                assert own in known, name
                plain = isinstance(value, str) and value.isdecimal()
                fields[own] = int(value) if plain else value
        if "pipeline_model_parallel_layout" in stated:
            text = stated["pipeline_model_parallel_layout"]
            parts = parts_of(text)
            assert len(parts) == layout.pp * layout.vpp
            fields.pop("virtual_pipeline_model_parallel_size", None)
            fields["num_layers"] = layout.pp * layout.vpp
            fields["virtual_pipeline_model_parallel_size"] = layout.vpp if layout.vpp > 1 else None
            fields.pop("recompute_num_layers", None)
            if fields.get("recompute_method"):
                fields["recompute_num_layers"] = 1
        fields["add_bias_linear"] = "disable_bias_linear" not in stated
        if layout.pp > 1:
            fields["pipeline_dtype"] = torch.bfloat16
        if run.model.experts and layout.tp > 1:
            fields["sequence_parallel"] = True
        made = core(**fields)
        assert made.tensor_model_parallel_size == layout.tp
        assert made.pipeline_model_parallel_size == layout.pp
        assert made.context_parallel_size == layout.cp
        assert made.expert_model_parallel_size == layout.ep
        assert made.num_query_groups == run.model.kv_heads
        assert int(stated["global_batch_size"]) == layout.global_batch


def test_torchtitan_takes_the_settings() -> None:
    """Fields of release 0.3's configuration; degrees and the world agree in its ParallelDims."""
    pytest.importorskip("torchtitan")
    configs = pytest.importorskip("torchtitan.config.configs")
    dims = pytest.importorskip("torchtitan.distributed.parallel_dims")
    moved = {"expert_tensor_parallel_degree"}
    for run, files in _written("torchtitan"):
        layout = run.layout
        tables = tomllib.loads(files["train.toml"])
        own = {name: v for name, v in tables["parallelism"].items() if name not in moved}
        made = configs.ParallelismConfig(**own)
        training = configs.TrainingConfig(**tables["training"])
        assert (training.global_batch_size, training.seq_len) == (128, 4096)
        world = dims.ParallelDims(
            dp_replicate=made.data_parallel_replicate_degree,
            dp_shard=made.data_parallel_shard_degree, cp=made.context_parallel_degree,
            tp=made.tensor_parallel_degree, pp=made.pipeline_parallel_degree,
            ep=made.expert_parallel_degree, world_size=layout.devices,
        )  # fmt: skip
        assert (world.tp, world.pp, world.cp) == (layout.tp, layout.pp, layout.cp)
        assert world.dp_replicate * world.dp_shard == layout.dp


def test_torchtitan_3_takes_the_python_file() -> None:
    """Assignments of the written function go to the fields of release 0.3, which agree."""
    pytest.importorskip("torchtitan")
    configs = pytest.importorskip("torchtitan.config.configs")
    dims = pytest.importorskip("torchtitan.distributed.parallel_dims")
    kinds = {
        "training": configs.TrainingConfig, "parallelism": configs.ParallelismConfig,
        "compile": configs.CompileConfig,
    }  # fmt: skip
    for run, files in _written("torchtitan-0.3"):
        layout = run.layout
        text = files["train_config.py"]
        tree = ast.parse(text)
        (function,) = (node for node in tree.body if isinstance(node, ast.FunctionDef))
        assert function.name in files["launch.sh"]
        made = {name: kind() for name, kind in kinds.items()}
        for line in function.body:
            if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Attribute):
                path = ast.unparse(line.targets[0]).split(".")[1:]
                if path != ["activation_checkpoint"]:
                    section, name = path
                    assert hasattr(made[section], name), path
                    setattr(made[section], name, ast.literal_eval(line.value))
        parallel = made["parallelism"]
        world = dims.ParallelDims(
            dp_replicate=parallel.data_parallel_replicate_degree,
            dp_shard=parallel.data_parallel_shard_degree, cp=parallel.context_parallel_degree,
            tp=parallel.tensor_parallel_degree, pp=parallel.pipeline_parallel_degree,
            ep=parallel.expert_parallel_degree, world_size=layout.devices,
        )  # fmt: skip
        assert (world.tp, world.pp, world.cp, world.ep) == (
            layout.tp, layout.pp, layout.cp, layout.ep,
        )  # fmt: skip
        assert world.dp_replicate * world.dp_shard == layout.dp
        assert made["training"].global_batch_size == layout.global_batch


def test_megatron_bridge_takes_the_file() -> None:
    """Batches and sharing in its own records, degrees in Megatron-Core's; names are all fields."""
    torch = pytest.importorskip("torch")
    own = pytest.importorskip("megatron.bridge.training.config")
    core = pytest.importorskip("megatron.core.transformer").TransformerConfig
    known = {field.name for field in dataclasses.fields(core)} | _PROVIDED
    sections = {field.name for field in dataclasses.fields(own.ConfigContainer)}
    for run, files in _written("megatron-bridge"):
        layout = run.layout
        tables = yaml.safe_load(files["recipe.yaml"])
        assert set(tables) <= sections
        train = own.TrainingConfig(**tables["train"])
        assert train.micro_batch_size == layout.micro_batch
        assert train.global_batch_size == layout.global_batch
        ddp = own.DistributedDataParallelConfig(**tables["ddp"])
        assert ddp.use_distributed_optimizer == bool(layout.zero_stage)
        model = dict(tables["model"])
        assert set(model) <= known
        fields = {name: value for name, value in model.items() if name not in _PROVIDED}
        if fields.pop("pipeline_model_parallel_layout", None):
            fields["num_layers"] = layout.pp * layout.vpp
            fields.pop("recompute_num_layers", None)
            if fields.get("recompute_method"):
                fields["recompute_num_layers"] = 1
        fields["virtual_pipeline_model_parallel_size"] = layout.vpp if layout.vpp > 1 else None
        if layout.pp > 1:
            fields["pipeline_dtype"] = torch.bfloat16
        if run.model.experts and layout.tp > 1:
            fields["sequence_parallel"] = True
        fields["add_bias_linear"] = False
        made = core(**fields)
        assert made.tensor_model_parallel_size == layout.tp
        assert made.pipeline_model_parallel_size == layout.pp
        assert made.context_parallel_size == layout.cp
        assert made.expert_model_parallel_size == layout.ep


_PROVIDED = {"vocab_size", "seq_length", "share_embeddings_and_output_weights"}
"""Fields of its GPTModelProvider that TransformerConfig has not; the provider wants a GPU."""


def test_accelerate_takes_the_files(tmp_path: Path) -> None:
    sizes_of = pytest.importorskip("accelerate").ParallelismConfig
    read = pytest.importorskip("accelerate.commands.config.config_args").load_config_from_file
    pytest.importorskip("transformers")
    for run, files in _written("accelerate"):
        layout = run.layout
        path = tmp_path / "accelerate.yaml"
        path.write_text(files["accelerate.yaml"])
        made = read(str(path))
        assert made.num_processes == layout.devices
        assert made.mixed_precision == run.precision
        sizes = {
            name.removeprefix("parallelism_config_"): size
            for name, size in made.parallelism_config.items()
        }
        meshes = sizes_of(**sizes)
        assert (meshes.tp_size, meshes.cp_size) == (layout.tp, layout.cp)
        if layout.zero_stage:
            assert meshes.total_size == layout.devices


def test_deepspeed_takes_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    config = pytest.importorskip("deepspeed.runtime.config")
    monkeypatch.setattr(config.dist, "get_rank", lambda: 0)
    for run, files in _written("deepspeed"):
        stated = json.loads(files["ds_config.json"])
        made = config.DeepSpeedConfig(stated, mpu=_Ranks(run.layout.dp))
        assert made.zero_config.stage == run.layout.zero_stage
        assert made.train_batch_size == run.layout.global_batch
        assert made.train_micro_batch_size_per_gpu == run.layout.micro_batch
        assert made.gradient_accumulation_steps == run.layout.micro_batches


class _Ranks:
    """What DeepSpeed asks of who splits its model."""

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas

    def get_data_parallel_world_size(self) -> int:
        return self._replicas

    def get_slice_parallel_world_size(self) -> int:
        return 1

    def get_tensor_model_parallel_world_size(self) -> int:
        return 1

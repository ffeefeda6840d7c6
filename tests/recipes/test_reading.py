"""What the syntaxes of recipes say: variables, arithmetic, anchors, documents, literals."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from importers.errors import ModelError
from importers.recipes.arguments import shell_file
from importers.recipes.documents import gin_file, toml_file, yaml_file
from importers.recipes.python import python_file
from importers.recipes.reading import read_recipe, recipe_of_texts
from ir.recipes.quantities import Quantities

pytestmark = pytest.mark.fast

SCRIPT = r"""#!/bin/bash
export TP=4   # ranks
NODES=${SLURM_NNODES:-"2"}
GPUS=8
WORLD=$(($GPUS*NODES))
GLOBAL=$((WORLD * 4))
DTYPE="bf16"
EXTRA=()
if [[ "$DTYPE" == "bf16" ]]; then
    EXTRA+=("--bf16 --use-distributed-optimizer")
else
    EXTRA+=(--fp16)
fi
if [ $NODES -gt 4 ]; then PP=8; else PP=2; fi
MODEL="
    --num-layers 24 \
    --hidden-size 1024 \
    --num-attention-heads 16
"
ARGS=(
    --tensor-model-parallel-size ${TP}  # a comment
    --pipeline-model-parallel-size $PP
    --micro-batch-size 1
    --global-batch-size $GLOBAL
)
torchrun --nproc_per_node $GPUS --nnodes "$NODES" pretrain_gpt.py \
    $MODEL \
    --seq-length=2048 \
    ${ARGS[@]} "${EXTRA[@]}" 2>&1 | tee log --not-an-option 3
"""


def test_a_script_is_followed_without_being_run() -> None:
    found = recipe_of_texts({"train.sh": SCRIPT})
    values = found.values
    expected = {
        "tp": 4, "pp": 2, "dp": 2, "devices": 16, "nodes": 2, "global_batch": 64, "seq_len": 2048,
        "layers": 24, "accumulation": 32, "zero_stage": 1,
    }  # fmt: skip
    assert {name: values[name] for name in expected} == {
        name: Fraction(number) for name, number in expected.items()
    }
    assert values["precision"] == "bf16"
    assert "not-an-option" not in found.settings


def test_a_value_is_found_where_it_is_written() -> None:
    """Behind a variable too; what arithmetic makes is the expression."""
    found = {each.name: each for each in shell_file("train.sh", SCRIPT).given}
    spans = {
        name: SCRIPT[each.span.start : each.span.end]
        for name, each in found.items()
        if each.span is not None
    }
    assert spans["tensor-model-parallel-size"] == "4"
    assert spans["pipeline-model-parallel-size"] == "2"
    assert spans["global-batch-size"] == "$((WORLD * 4))"
    assert spans["seq-length"] == "2048"
    assert found["tensor-model-parallel-size"].line == 2


def test_a_document_in_a_script_is_read() -> None:
    text = """TP=2
MICRO=4
cat <<EOT > ds.json
{
  "train_micro_batch_size_per_gpu": $MICRO,
  "zero_optimization": {"stage": 2, "overlap_comm": true}
}
EOT
deepspeed --num_nodes=2 --num_gpus 8 pretrain_gpt.py --tensor-model-parallel-size $TP \\
    --num-layers 8 --deepspeed_config ds.json
"""
    found = recipe_of_texts({"run.sh": text})
    assert found.framework.name == "megatron-deepspeed"
    assert found.values["zero_stage"] == 2
    assert found.values["micro"] == 4
    assert found.values["dp"] == 8


def test_yaml_anchors_and_keys_that_stand_twice() -> None:
    text = "a: &size 4\nb:\n  c: *size\n  d: [*size, 1]\nb2: {<<: {e: 1}, f: 2}\na: 8\n"
    found = yaml_file("x.yaml", text)
    values = {each.name: each.value for each in found.given}
    assert values == {"a": "8", "b.c": "4", "b.d": ["4", "1"], "b2.e": "1", "b2.f": "2"}
    assert found.remarks == ("line 6: a stands on line 1 too; the later one counts",)


def test_toml_values_are_found_where_they_are_written() -> None:
    text = '[a.b]\nc = 4  # four\nd = "x # y" # z\n\n[e]\nf = [1, 2]\n'
    found = toml_file("x.toml", text)
    assert {g.name: text[g.span.start : g.span.end] for g in found.given if g.span} == {
        "a.b.c": "4", "a.b.d": '"x # y"', "e.f": "[1, 2]",
    }  # fmt: skip


def test_python_is_read_by_its_literals() -> None:
    text = """
SEQ = 2 * 1024
def small_8b():
    cfg = base_8b()
    cfg.model.seq_length = SEQ
    cfg.mixed_precision = precision("bf16")
    cfg.parallelism = Parallel(tensor=Degree(size=128 // 32), name=Kind.hsdp)
    cfg.model.pipeline = open("/etc/passwd").read()
    return cfg
def base_8b():
    cfg = Config(train=Train(micro_batch_size=3))
    return cfg
"""
    found = python_file("r.py", text, "small_8b")
    values = {each.name: each.value for each in found.given}
    assert values["model.seq_length"] == 2048
    assert values["mixed_precision"] == "bf16"
    assert values["parallelism.tensor.size"] == 4
    assert values["parallelism.name"] == "hsdp"
    assert values["train.micro_batch_size"] == 3
    assert "passwd" not in str(values["model.pipeline"])
    with pytest.raises(ModelError, match=r"(?s)2 recipes.*r\.py:small_8b"):
        python_file("r.py", text)


def test_gin_bindings() -> None:
    found = gin_file("t5.gin", "PARTS = 4\nx/y.Partitioner.num_partitions = %PARTS # of model\n")
    assert [(g.name, g.value) for g in found.given] == [
        ("PARTS", "4"), ("y.Partitioner.num_partitions", "4"),
    ]  # fmt: skip


def test_what_follows_from_products_and_what_cannot_be() -> None:
    known = Quantities()
    for name, number in (("devices", 64), ("tp", 8), ("pp", 4), ("cp", 1)):
        assert known.say(name, Fraction(number), name)
    assert known.number("dp") == 2
    assert known.say("global_batch", Fraction(32), "it")
    assert known.say("micro", Fraction(2), "it")
    assert known.number("accumulation") == 8
    assert not known.say("nodes", Fraction(7), "the launch line")
    assert known.number("nodes") is None
    assert "nodes 7 (the launch line) is not taken" in known.contradictions[0]


def test_several_files_are_one_recipe(tmp_path: Path) -> None:
    (tmp_path / "fsdp.yaml").write_text("distributed_type: FSDP\nnum_processes: 16\n")
    (tmp_path / "run.sh").write_text("accelerate launch t.py --per_device_train_batch_size 2\n")
    found = read_recipe([str(tmp_path / "fsdp.yaml"), str(tmp_path / "run.sh")])
    assert found.framework.name == "accelerate"
    assert found.values["dp"] == 16
    assert found.values["micro"] == 2

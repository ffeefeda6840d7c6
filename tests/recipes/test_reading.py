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
from ir.recipes.quantities import Quantities, plain

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


FOLLOWED = r"""
: ${TP:=2}
SIZE=${1:-8b}
case "$SIZE" in
  70b|70B) LAYERS=80; HIDDEN=8192 ;;
  8b) LAYERS=32
      HIDDEN=4096 ;;
  *) echo unknown; exit 1 ;;
esac
declare -A BATCH=([8b]=64 [70b]=256)
LIST=("$TP,4" "1,8")
let "SEQ = 1024 * 4"
PARTS=$(expr $LAYERS / 2)
FLAG=$(( ($TP > 1) ? 1 : 0 ))
[[ $FLAG -eq 1 ]] && ARGS+=" --sequence-parallel"
run() {
  local heads=$1
  for pair in "${LIST[@]}"; do
    IFS=',' read -r tp pp <<< "$pair"
    srun bash -c "cd /x && torchrun --nproc-per-node 8 pretrain_gpt.py \
      --tensor-model-parallel-size $tp --pipeline-model-parallel-size $pp --num-layers $LAYERS \
      --hidden-size $HIDDEN --num-attention-heads $heads --seq-length ${SEQ} --micro-batch-size 1 \
      --global-batch-size ${BATCH[$SIZE]} --data type:a|b --name ${SIZE^^} $ARGS \
      --train-samples $(( $(nproc) * 2 )) --recompute-num-layers $PARTS" | tee log
  done
}
if (( LAYERS > 16 )); then run 32; fi
"""


@pytest.mark.fast
def test_control_of_a_script_is_followed() -> None:
    """Defaults, `case`, tables, functions, loops, conditions, and a command inside another."""
    found = recipe_of_texts({"run.sh": FOLLOWED})
    numbers = {"tp": 2, "pp": 4, "layers": 32, "hidden": 4096, "heads": 32, "global_batch": 64}
    assert {name: found.values.get(name) for name in numbers} == numbers
    assert found.values["seq_len"] == 4096
    assert found.values["sequence_parallel"] == "yes"
    assert found.settings["name"] == "8B"
    assert found.settings["recompute-num-layers"] == "16"
    assert found.settings["train-samples"] is True
    assert any("first value" in each for each in found.files[0].remarks)


def test_variables_come_from_the_user() -> None:
    found = recipe_of_texts({"run.sh": FOLLOWED}, environment={"1": "70b", "TP": "8"})
    numbers = {"tp": 8, "layers": 80, "global_batch": 256}
    assert {name: found.values.get(name) for name in numbers} == numbers


def test_what_nobody_sets_is_said_to_have_no_value() -> None:
    text = "torchrun p.py --num-layers $LAYERS --seq-length 8 --micro-batch-size 1 $MORE\n"
    found = recipe_of_texts({"run.sh": text})
    (said,) = found.quantities.contradictions
    assert "num-layers has no value" in said
    assert "LAYERS, MORE" in found.files[0].remarks[0]


def test_scripts_that_start_or_read_others() -> None:
    """The arguments of the first reach the second, and a change is made where they stand."""
    texts = {
        "start.sh": "source sizes.sh\nbash run.sh 4 $HERE\n",
        "sizes.sh": "export LAYERS=24\nHERE=16\n",
        "run.sh": "torchrun p.py --tensor-model-parallel-size $1 --num-layers $LAYERS "
        "--seq-length $2\n",
    }
    found = recipe_of_texts(texts)
    numbers = {"tp": 4, "layers": 24, "seq_len": 16}
    assert {name: found.values.get(name) for name in numbers} == numbers
    assert [file.name for file in found.files] == ["start.sh"]
    place = found.place("tensor-model-parallel-size")
    assert place is not None
    assert place[1].span is not None
    assert texts["start.sh"][place[1].span.start : place[1].span.end] == "4"


@pytest.mark.fast
def test_references_of_a_configuration_are_put_in() -> None:
    text = """
model: {hidden_size: 64, ffn_hidden_size: "${multiply:4, ${.hidden_size}}", micro_batch_size: 1,
  tensor_model_parallel_size: 2, encoder_seq_length: 512, num_layers: 4, num_attention_heads: 4}
trainer: {devices: 8, num_nodes: "${oc.env:NODES,2}"}
"""
    found = recipe_of_texts({"nemo.yaml": text})
    assert found.framework.name == "nemo"
    numbers = {"ffn": 256, "devices": 16, "dp": 8}
    assert {name: found.values.get(name) for name in numbers} == numbers


def test_documents_of_other_kinds_do_not_matter() -> None:
    text = "cat <<E > hosts\nnode1\nnode2\nE\ntorchrun p.py --num-layers 4 --seq-length 8\n"
    assert recipe_of_texts({"run.sh": text}).values["layers"] == 4


TITAN = """
def llama3_8b():
    model_spec = model_registry("8B", converters=[Float8LinearConverter.Config(emulate=True)])
    compiled = CompileConfig(enable=True, enable_async_tensor_parallel=True)
    return Trainer.Config(
        model_spec=model_spec,
        training=TrainingConfig(num_tokens_per_microbatch_per_dp_rank=2 * 8192,
                                max_context_length=8192),
        parallelism=ParallelismConfig(tensor_parallel_degree=4),
        activation_checkpoint=FullAC.Config(),
        compile=compiled,
    )


def mine1():
    config = llama3_8b()
    config.activation_checkpoint = None
    return config
"""


@pytest.mark.fast
def test_a_configuration_of_torchtitan_is_read_as_data() -> None:
    found = recipe_of_texts({"c.py": TITAN}, {"c.py": "llama3_8b"})
    assert found.framework.name == "torchtitan-0.3"
    said = {name: plain(value) for name, value in found.values.items()}
    expected = {"tp": "4", "micro": "2", "precision": "fp8", "recompute": "full", "compiled": "yes"}
    assert {name: said[name] for name in expected} == expected
    assert not found.unread
    other = recipe_of_texts({"c.py": TITAN}, {"c.py": "mine1"})
    assert (plain(other.values["recompute"]), plain(other.values["tp"])) == ("none", "4")


T5X = """
TASK_FEATURE_LENGTHS = {"inputs": 512, "targets": 114}
BATCH_SIZE = 2048
partitioning.PjitPartitioner:
  num_partitions = 4
  logical_axis_rules = @partitioning.standard_logical_axis_rules()
train/utils.DatasetConfig:
  batch_size = %BATCH_SIZE
train_eval/utils.DatasetConfig:
  batch_size = 64
trainer.Trainer.num_microbatches = 2
"""


def test_a_gin_file_with_blocks_and_scopes() -> None:
    found = recipe_of_texts({"t5.gin": T5X}, said={"devices": Fraction(64)})
    assert found.framework.name == "t5x"
    numbers = {"tp": 4, "dp": 16, "global_batch": 2048, "micro": 64, "seq_len": 512}
    assert {name: found.values.get(name) for name in numbers} == numbers
    assert not found.unread

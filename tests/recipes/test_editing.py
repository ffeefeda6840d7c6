"""In then out keeps every line of the user's file that need not change."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest

from costmodel.training.records import Recompute, TrainingLayout
from exporters.recipes.editing import changed_settings, edited
from exporters.recipes.writing import recipe_files
from importers.recipes.reading import recipe_of, recipe_of_texts
from ir.recipes.recipe import Recipe
from ir.recipes.table import framework, framework_names
from planner.requests.errors import UserError
from planner.whatif.recipe_runs import in_layout, quantities_of, run_of
from planner.whatif.recipe_targets import expressed
from tests.recipes.drawn import MACHINES, MODELS, drawn
from tests.recipes.published import Published, published
from tests.recipes.test_reading import SCRIPT


def _changed(recipe: Recipe, model: str, machine: str, **fields: object) -> tuple[str, Recipe]:
    """The difference of the files in a changed layout, and the changed files as a recipe."""
    own = run_of(recipe, model, machine)
    layout: TrainingLayout = replace(own.run.layout, **fields)  # type: ignore[arg-type]
    run = in_layout(own, layout)
    found = edited(recipe, quantities_of(own.run), quantities_of(run))
    assert not found.aside
    read = recipe_of_texts(found.texts, asked=recipe.framework.name, said=recipe.said)
    assert run_of(read, model, machine).run.layout == run.layout
    return found.diff(recipe), read


def _lines(diff: str) -> list[str]:
    return [
        line for line in diff.splitlines() if line[:1] in "+-" and line[:3] not in {"+++", "---"}
    ]


@pytest.mark.fast
def test_nothing_changes_where_the_layout_is_the_same() -> None:
    recipe = recipe_of_texts({"train.sh": SCRIPT})
    assert _changed(recipe, "", "h100")[0] == ""


@pytest.mark.fast
def test_a_variable_is_changed_where_it_is_set() -> None:
    recipe = recipe_of_texts({"train.sh": SCRIPT})
    diff, _ = _changed(recipe, "", "h100", tp=2, dp=4)
    assert _lines(diff) == ["-export TP=4   # ranks", "+export TP=2   # ranks"]


@pytest.mark.fast
def test_an_argument_is_added_behind_the_last_one() -> None:
    recipe = recipe_of_texts({"train.sh": SCRIPT})
    diff, _ = _changed(recipe, "", "h100", sequence_parallel=True)
    assert _lines(diff) == [
        '-    ${ARGS[@]} "${EXTRA[@]}" 2>&1 | tee log --not-an-option 3',
        '+    ${ARGS[@]} "${EXTRA[@]}" \\',
        "+    --sequence-parallel 2>&1 | tee log --not-an-option 3",
    ]


FLAGS = """torchrun p.py --num-layers 8 --hidden-size 512 --num-attention-heads 8 \\
  --seq-length 512 \\
  --recompute-activations \\
  --micro-batch-size 1 \\
  --global-batch-size 8 --nproc-per-node 8
"""


@pytest.mark.fast
def test_a_flag_is_taken_out_with_its_line() -> None:
    recipe = recipe_of_texts({"t.sh": FLAGS})
    diff, _ = _changed(recipe, "", "h100", recompute=Recompute.NONE)
    assert _lines(diff) == ["-  --recompute-activations \\"]


TOML = """# mine
[model]
name = "llama3"
flavor = "8B"

[training]
local_batch_size = 2 # per rank
seq_len = 8192

[parallelism]
data_parallel_shard_degree = -1
tensor_parallel_degree = 1 # none yet
"""


@pytest.mark.fast
def test_what_is_left_to_the_framework_stays_so() -> None:
    """`-1` finds the new number of ranks by itself."""
    said = {"devices": Fraction(16)}
    recipe = recipe_of_texts({"l.toml": TOML}, said=said)
    diff, _ = _changed(recipe, "", "h100", tp=2, dp=8, sequence_parallel=True, micro_batch=4)
    assert _lines(diff) == [
        "-local_batch_size = 2 # per rank",
        "+local_batch_size = 4 # per rank",
        "-tensor_parallel_degree = 1 # none yet",
        "+tensor_parallel_degree = 2 # none yet",
    ]


YAML = """parallel_config:
  data_parallel: &dp 8
  model_parallel: 2   # ranks
  pipeline_stage: 1
  use_seq_parallel: True
parallel:
  enable_parallel_optimizer: True
  dataset_strategy: [[*dp, 1]]
runner_config:
  batch_size: 1
  gradient_accumulation_steps: 4
recompute_config:
  recompute: False
model:
  model_config: {seq_length: 4096, compute_dtype: bfloat16, num_layers: 32}
"""


@pytest.mark.fast
def test_yaml_keeps_its_spelling() -> None:
    recipe = recipe_of_texts({"m.yaml": YAML})
    diff, _ = _changed(
        recipe, "llama3-8b", "atlas-800t-a2", tp=4, dp=4, recompute=Recompute.FULL,
        sequence_parallel=False, micro_batch=2,
    )  # fmt: skip
    assert [line for line in _lines(diff) if line[0] == "+"] == [
        "+  data_parallel: &dp 4",
        "+  model_parallel: 4   # ranks",
        "+  use_seq_parallel: False",
        "+  batch_size: 2",
        "+  recompute: True",
    ]


JSON = """{
  "train_batch_size": 64,
  "train_micro_batch_size_per_gpu": 2,
  "zero_optimization": {
    "stage": 2
  },
  "bf16": {"enabled": true}
}
"""
PYTHON = """def r1():
    cfg = llama3_8b_config()
    cfg.model.tensor_model_parallel_size = 1
    cfg.model.seq_length = 8192
    cfg.train.micro_batch_size = 1
    cfg.train.global_batch_size = 64
    return cfg
"""


@pytest.mark.fast
def test_json_and_python_are_changed_in_place() -> None:
    said = {"devices": Fraction(8), "seq_len": Fraction(2048)}
    recipe = recipe_of_texts({"d.json": JSON}, said=said)
    diff, _ = _changed(recipe, "llama3-8b", "h100", zero_stage=3, micro_batch=4)
    assert [line.strip("+, ") for line in _lines(diff) if line[0] == "+"] == [
        '"train_micro_batch_size_per_gpu": 4', '"stage": 3',
    ]  # fmt: skip
    recipe = recipe_of_texts({"r.py": PYTHON}, said={"devices": Fraction(16)})
    diff, _ = _changed(recipe, "", "h100", tp=4, dp=4, sequence_parallel=True)
    assert _lines(diff) == [
        "-    cfg.model.tensor_model_parallel_size = 1",
        "+    cfg.model.tensor_model_parallel_size = 4",
        "+    cfg.model.sequence_parallel = True",
    ]


@pytest.mark.parametrize("name", framework_names())
def test_any_layout_can_be_changed_into_any_other(name: str) -> None:
    """The files of one layout, changed into those of another, are read as the other."""
    found = framework(name)
    for model in MODELS[:6]:
        runs = list(drawn(name, model, 14, seed=4))
        said = [(own, expressed(found, own, own.run.layout)) for own in runs]
        able = [(own, each.run) for own, each in said if not each.refused]
        for (own, old), (_, new) in pairwise(able):
            files = recipe_files(found, quantities_of(old))
            recipe = recipe_of_texts(files, asked=name)
            changed = edited(recipe, quantities_of(old), quantities_of(new))
            assert not changed.aside
            read = recipe_of_texts(changed.texts, asked=name)
            assert run_of(read, model, own.run.machine).run.layout == new.layout
            again = recipe_of(found, read.files)
            assert again.values == read.values


@pytest.mark.fast
def test_what_the_environment_must_be_is_told() -> None:
    """Megatron-FSDP does not start with one connection, which tensor parallel ranks want."""
    text = SCRIPT.replace("TP=4 ", "TP=1 ")
    recipe = recipe_of_texts({"train.sh": text})
    own = run_of(recipe, "", "h100")
    run = in_layout(own, replace(own.run.layout, zero_stage=3))
    found = edited(recipe, quantities_of(own.run), quantities_of(run))
    assert found.environment == ["do not set CUDA_DEVICE_MAX_CONNECTIONS=1"]


@pytest.mark.parametrize("one", published(), ids=lambda one: one.name)
def test_only_lines_of_changed_settings_change(one: Published) -> None:
    """In then out: a published recipe with another micro-batch keeps every other line."""
    usual = {"devices": Fraction(64), "seq_len": Fraction(4096), "micro": Fraction(1)}
    first = recipe_of_texts(one.files(), asked=one.framework)
    said = {name: value for name, value in usual.items() if name not in first.values}
    recipe = recipe_of_texts(one.files(), asked=one.framework, said=said)
    try:
        own = run_of(recipe, "llama3-8b", MACHINES.get(one.framework, "h100"))
    except UserError:
        return
    layout = own.run.layout
    each = layout.global_batch // layout.dp
    other = next((n for n in (2, 1, 4) if each % n == 0 and n != layout.micro_batch), 0)
    if not other:
        return
    old, new = (
        quantities_of(run) for run in (own.run, in_layout(own, replace(layout, micro_batch=other)))
    )
    changes = changed_settings(recipe, old, new)
    lines = _lines(edited(recipe, old, new).diff(recipe))
    assert sum(line[0] == "-" for line in lines) <= len(changes) + 1
    same = edited(recipe, old, old)
    assert same.diff(recipe) == ""


@pytest.mark.fast
def test_settings_that_megatron_wants_together_are_written_together() -> None:
    """Its sharding of parameters is refused without its checkpoints, and a gather that overlaps
    without the reduction that does.
    """
    text = (
        "torchrun --nnodes 2 --nproc-per-node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
        "--num-attention-heads 32 --seq-length 4096 --micro-batch-size 1 --global-batch-size 64 "
        "--bf16\n"
    )
    recipe = recipe_of_texts({"train.sh": text}, asked="megatron")
    own = run_of(recipe, "llama3-8b", "h100")
    layout = replace(own.run.layout, zero_stage=3)
    old = quantities_of(own.run, overlap=False)
    new = quantities_of(in_layout(own, layout))
    written = edited(recipe, old, new).texts["train.sh"]
    for word in ("optim_grads_params", "fsdp_dtensor", "overlap-grad-reduce", "use-megatron-fsdp"):
        assert word in written
    again = recipe_of_texts({"train.sh": written}, asked="megatron")
    assert run_of(again, "llama3-8b", "h100").run.layout.zero_stage == 3
    alone = text.replace("--bf16", "--bf16 --use-megatron-fsdp")
    assert recipe_of_texts({"a.sh": alone}, asked="megatron").values["zero_stage"] == 0

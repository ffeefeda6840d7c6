"""`planner recipe`: what a training recipe of a framework takes, and what would be better."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cli.command_options import RecipeCommand
from cli.declared import command
from cli.errors import UserError
from cli.files import check_folder
from cli.options import Argument
from cli.progress import Progress
from planner.requests.options.recipes import RecipeOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

EPILOG = """\b
Examples:
  planner recipe train_llama3_8b.sh --cluster dgx-h100
  planner recipe llama3_70b.toml --cluster dgx-h100 --devices 256
  planner recipe pretrain.yaml --cluster atlas-800t-a2 --model qwen3-32b -o changed
  planner recipe fsdp.yaml --model llama3-8b --say 'micro=2,seq=4096' --cluster a100
  planner recipe llama3.py:llama3_70b_pretrain_64gpu_h100_bf16_config --cluster h100 --json
  planner recipe train.sh --cluster h100 --to torchtitan -o titan
  planner recipe run_qwen.sh --set TP=4 --set 2=7B --cluster h100 --devices 64

Read are scripts and settings of Megatron-LM, Megatron-Bridge, NeMo, torchtitan, DeepSpeed,
accelerate, MindFormers, MindSpeed-LLM and MaxText, and of axolotl, transformers' Trainer
(LLaMA-Factory, TRL), nanotron, GPT-NeoX, OLMo, OLMo-core and Megatron-DeepSpeed. Nothing in them
is executed. docs/recipes.md lists every setting.

\b
Exit status: 0 done, 2 a fault in the command, the recipe or the model."""

Files = Annotated[
    list[str],
    Argument(value="FILE", help="The files of one recipe; FILE.py:NAME names a function."),
]


@command
def recipe(files: Files, asked: RecipeOptions, here: RecipeCommand) -> None:
    """Read a training recipe of a framework: its step, its memory, and what would be better."""
    if here.to and here.output is None:
        raise UserError("--to writes files, but no folder is named", "--to", "add -o DIR")
    if here.output is not None:
        check_folder(here.output, f"-o {here.output}")
    record, texts = _found(files, asked, here)
    written = []
    if here.output is not None:
        from cli.recipe_files import written_texts  # noqa: PLC0415  brings in the cost model

        named = {Path(name).name: text for name, text in texts.items()}
        written = written_texts(named, here.output)
    record["files"] = [str(path) for path in written]
    if here.as_json:
        from planner.requests.plan_json import dumps  # noqa: PLC0415

        print(dumps(record))
        return
    from cli.text import tell  # noqa: PLC0415  brings in rich
    from report.recipe import parts  # noqa: PLC0415

    tell(parts(record))


def _found(
    files: list[str], asked: RecipeOptions, here: RecipeCommand
) -> tuple[dict[str, Any], Mapping[str, str]]:
    """What is told, and the files of the best recipe or of another framework."""
    with Progress() as progress:
        progress(f"reading {Path(files[0]).name}")
        if here.server is not None:
            from cli.remote_questions import remote_recipe  # noqa: PLC0415

            return remote_recipe(here.server, files, asked, here.to, progress)
        from service.recipes import recipe_answer  # noqa: PLC0415  takes a second

        return recipe_answer(asked, files, here.to, progress)

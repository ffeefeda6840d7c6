"""`planner recipe`: what a training recipe of a framework takes, and what would be better."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.command_options import RecipeCommand
from cli.declared import command
from cli.errors import UserError
from cli.files import Writer, check_folder, write_paths, writer_of
from cli.progress import Progress
from planner.requests.options.recipes import RecipeOptions

if TYPE_CHECKING:
    from planner.whatif.recipes import RecipeReport

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
    typer.Argument(metavar="FILE", help="The files of one recipe; FILE.py:NAME names a function."),
]


@command
def recipe(files: Files, asked: RecipeOptions, here: RecipeCommand) -> None:
    """Read a training recipe of a framework: its step, its memory, and what would be better."""
    if here.to and here.output is None:
        raise UserError("--to writes files, but no folder is named", "--to", "add -o DIR")
    if here.output is not None:
        check_folder(here.output, f"-o {here.output}")
    with Progress() as progress:
        progress(f"reading {Path(files[0]).name}")
        from planner.whatif.recipes import examined  # noqa: PLC0415  takes a second

        found = examined(asked, files, progress)
    written = _written(found, here.to, here.output)
    if here.as_json:
        from cli.recipe_text import recipe_json  # noqa: PLC0415
        from planner.requests.plan_json import dumps  # noqa: PLC0415

        print(dumps(recipe_json(found, written)))
        return
    from cli.recipe_text import print_recipe  # noqa: PLC0415  brings in rich
    from cli.text import page  # noqa: PLC0415

    with page() as out:
        print_recipe(found, written, out)


def _written(found: RecipeReport, to: str, output: Path | None) -> list[Path]:
    """The files that were asked for, each whole or not at all."""
    if output is None:
        return []
    if to:
        from cli.recipe_files import files_of_layout  # noqa: PLC0415

        texts = files_of_layout(to, found.own, found.priced.run.layout, "--to")
    else:
        from cli.recipe_text import edited_files  # noqa: PLC0415

        texts = {Path(name).name: text for name, text in edited_files(found).texts.items()}
    writers: dict[Path, Writer] = {output / name: writer_of(text) for name, text in texts.items()}
    return write_paths(writers)

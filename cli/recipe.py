"""`planner recipe`: what a training recipe of a framework takes, and what would be better."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import options
from cli.errors import UserError
from cli.files import Writer, check_folder, write_paths, writer_of
from cli.progress import Progress

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

Read are scripts and settings of Megatron-LM, Megatron-Bridge (NeMo), torchtitan, DeepSpeed,
accelerate, MindFormers, MindSpeed-LLM and MaxText, and of nanotron, GPT-NeoX, OLMo, OLMo-core and
Megatron-DeepSpeed. Nothing in them is executed. docs/recipes.md lists every setting.

\b
Exit status: 0 done, 2 a fault in the command, the recipe or the model."""

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...", help="The files of one recipe; FILE.py:NAME names a function."
    ),
]
Machine = Annotated[
    str,
    typer.Option("--cluster", metavar="NAME", help="A bundled machine, or a chip such as h100."),
]
Model = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="A config.json, or a name that `planner sizes --list` prints.",
        show_default="what the recipe says",
    ),
]
DeviceCount = Annotated[
    int | None,
    typer.Option(
        "--devices", metavar="N", help="Devices of the job.", show_default="what the recipe says"
    ),
]
FrameworkName = Annotated[
    str,
    typer.Option(
        "--framework",
        metavar="NAME",
        help="The framework that the files are of.",
        show_default="by the settings that they have",
    ),
]
Said = Annotated[
    str,
    typer.Option(
        "--say",
        metavar="TEXT",
        help="What the files leave to others: some of batch, micro, seq, nodes, vocab.",
        show_default=False,
    ),
]
Target = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="NAME",
        help="Write the recipe for this framework, as it is, into the folder of -o.",
        show_default=False,
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "-o", "--output", metavar="DIR", help="Write the best recipe there.", show_default=False
    ),
]


def recipe(  # noqa: PLR0913  one parameter per option
    files: Files,
    *,
    cluster: Machine = "atlas-800t-a2",
    model: Model = "",
    devices: DeviceCount = None,
    framework: FrameworkName = "",
    say: Said = "",
    to: Target = "",
    output: Folder = None,
    as_json: options.Json = False,
) -> None:
    """Read a training recipe of a framework: its step, its memory, and what would be better."""
    if to and output is None:
        raise UserError("--to writes files, but no folder is named", "--to", "add -o DIR")
    if output is not None:
        check_folder(output, f"-o {output}")
    with Progress() as progress:
        progress(f"reading {Path(files[0]).name}")
        from planner.whatif.recipes import RecipeOptions  # noqa: PLC0415  takes a second

        asked = RecipeOptions(
            model=model, cluster=cluster, devices=devices, framework=framework, say=say
        )
        found = asked.examined(files, progress)
    written = _written(found, to, output)
    if as_json:
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

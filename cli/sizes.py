"""`planner sizes`: a network from its sizes, without a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from cli.declared import Said, command
from cli.errors import UserError
from cli.files import check_folder, write_files, writer_of
from cli.size_options import BaseModel, Sizes, SizesCommand
from planner.requests.options.searches import SearchOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from report.sizes import SizeFacts

EPILOG = """\b
Examples:
  planner sizes --list
  planner sizes --layers 80 --hidden 8192 --heads 64 --kv-heads 8 --ffn 28672 \\
      --vocabulary 128256 -o model.json
  planner sizes deepseek-v3 --layers 30 --experts 128 -o smaller.json

\b
Exit status: 0 done, 2 a fault in the command or the sizes."""


@command
def sizes(
    model: BaseModel = None, *, given: Said[Sizes], asked: SearchOptions, here: SizesCommand
) -> None:
    """Describe a network by its sizes, or change those of a published one."""
    spelled = {"feed_forward": "feed-forward"}
    wanted = {
        spelled.get(name, name.replace("_", " ")): size for name, size in given.values.items()
    }
    if here.listing:
        _print_list(as_json=here.as_json)
        return
    if model is None and not wanted:
        raise UserError(
            "no sizes are given",
            "planner sizes",
            "name a published model (--list prints them), or give sizes such as --layers 80",
        )
    output = here.output
    if output is not None:
        _check_output(output)
    config = _configuration(model, wanted, asked.dtype)
    facts = _facts(config, _name(model, output), asked.sequence)
    if output is not None:
        write_files(
            output.parent, {output.name: writer_of(json.dumps(dict(config), indent=2) + "\n")}
        )
    _print_facts(facts, config, output, as_json=here.as_json)


def _facts(config: Mapping[str, object], name: str, sequence: int | None) -> SizeFacts:
    """The facts of a configuration, at one sample."""
    from importers.hf_config import import_config  # noqa: PLC0415  half a second of imports
    from report.sizes import size_facts  # noqa: PLC0415

    bind = {} if sequence is None else {"sequence": sequence}
    return size_facts(import_config(config, name, "the sizes given", bind), name)


def _check_output(output: Path) -> None:
    if output.suffix != ".json":
        raise UserError(
            f"{output.name} is no name of a config.json",
            f"-o {output}",
            "end it in .json: by that the other commands know it",
        )
    check_folder(output.parent)


def _configuration(
    model: str | None, wanted: Mapping[str, int | bool], dtype: str | None
) -> Mapping[str, object]:
    from importers.sizes import PLAIN, configuration, with_sizes  # noqa: PLC0415
    from ir.dtypes import SHORT_NAMES  # noqa: PLC0415

    changes: dict[str, int | bool | str] = dict(wanted)
    if dtype is not None:
        changes["element type"] = SHORT_NAMES[dtype]
    return with_sizes(PLAIN if model is None else configuration(model), changes)


def _name(model: str | None, output: Path | None) -> str:
    if output is not None:
        return output.stem
    return "model" if model is None else Path(model).stem if model.endswith(".json") else model


def _print_list(*, as_json: bool) -> None:
    from importers.sizes import published, published_names  # noqa: PLC0415

    models = [published(name) for name in published_names()]
    if as_json:
        from dataclasses import asdict  # noqa: PLC0415

        print(json.dumps({"models": [asdict(each) for each in models]}))
        return
    from cli.text import tell  # noqa: PLC0415  brings in rich
    from report.tables import Table, Unit  # noqa: PLC0415

    rows = [(m.name, m.parameters, m.config["model_type"], m.page) for m in models]
    columns = ("model", ("parameters", Unit.NUMBER), "kind", "sizes from")
    tell((Table.of("Published models", columns, rows),))


def _print_facts(
    facts: SizeFacts, config: Mapping[str, object], output: Path | None, *, as_json: bool
) -> None:
    if as_json:
        written = None if output is None else str(output)
        print(json.dumps(facts.to_dict() | {"config": dict(config), "output": written}))
        return
    from cli.text import tell  # noqa: PLC0415  brings in rich
    from report.sizes import parts  # noqa: PLC0415

    tell(parts(facts, config, output))

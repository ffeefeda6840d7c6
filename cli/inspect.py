"""`planner inspect`: what is in a model, before anything is planned."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cli import options
from cli.command_options import JSON
from cli.declared import command
from cli.errors import UserError
from planner.requests.option_texts import bindings, with_sequence
from planner.requests.option_texts import rules as given_rules
from planner.requests.options.option import Group, Option
from planner.requests.options.searches import SearchOptions
from planner.requests.sources import model_file

if TYPE_CHECKING:
    from ir.symbols import Binding

EPILOG = """\b
Examples:
  planner inspect model.onnx --bind batch=32,seq=4096
  planner inspect llama3-70b --batch 64 --sequence 8192 --json
  planner inspect --operators

\b
Exit status: 0 done, 2 a fault in the command or the model."""

Rules = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectCommand:
    """Of `planner inspect`."""

    # fmt: off
    operators: Annotated[bool, Option(
        group=Group.OUTPUT,
        help="Print what is known of each kind of operator, of the model or, without one, of all "
        "that ONNX has.",
    )] = False
    as_json: Annotated[bool, JSON] = False
    # fmt: on


@command
def inspect(
    model: options.OptionalModel = None, *, asked: SearchOptions, here: InspectCommand
) -> None:
    """Count the operators, parameters, FLOPs, activations and blocks of a model."""
    batch, as_json = asked.batch, here.as_json
    texts = with_sequence(asked.bind, asked.sequence)
    if model is not None and batch is not None:
        from planner.requests.symbols import with_open_batch  # noqa: PLC0415

        texts = with_open_batch(texts, batch, model_file(model))
    bound, given = bindings(texts), given_rules(asked.rule, asked.rules)
    if model is None:
        if not here.operators or bound or given or batch is not None:
            raise UserError(
                "no model is named",
                "planner inspect",
                "name a model; only --operators, by itself, needs none",
            )
        _print_catalogue(as_json=as_json)
    elif here.operators:
        _print_kinds(model, bound, batch, given, as_json=as_json)
    else:
        _print_facts(model, bound, batch, given, as_json=as_json)


def _print_catalogue(*, as_json: bool) -> None:
    if as_json:
        from planner.requests.coverage_facts import catalogue_dict  # noqa: PLC0415  half a second of imports
        from planner.requests.plan_json import dumps  # noqa: PLC0415

        print(dumps(catalogue_dict()))
        return
    from cli.coverage_text import catalogue_parts  # noqa: PLC0415
    from cli.text import tell  # noqa: PLC0415  brings in rich
    from importers.onnx_coverage import operator_coverage  # noqa: PLC0415

    tell(catalogue_parts(operator_coverage()))


def _print_kinds(
    model: Path, bind: Binding, batch: int | None, rules: Rules, *, as_json: bool
) -> None:
    from planner.requests.coverage_facts import model_kinds  # noqa: PLC0415  half a second of imports

    kinds = model_kinds(model, bind, batch, rules)
    if as_json:
        from dataclasses import asdict  # noqa: PLC0415

        from planner.requests.plan_json import dumps  # noqa: PLC0415

        found = [asdict(each) | {"known": each.known} for each in kinds]
        print(dumps({"name": model.name, "kinds": found}))
        return
    from cli.coverage_text import kind_parts  # noqa: PLC0415
    from cli.text import tell  # noqa: PLC0415  brings in rich

    tell(kind_parts(model.name, kinds))


def _print_facts(
    model: Path, bind: Binding, batch: int | None, rules: Rules, *, as_json: bool
) -> None:
    from planner.requests.model_facts import model_facts  # noqa: PLC0415  half a second of imports

    facts = model_facts(model, bind, batch, rules)
    if as_json:
        from planner.requests.plan_json import dumps  # noqa: PLC0415

        print(dumps(facts.to_dict()))
        return
    from cli.text import tell  # noqa: PLC0415  brings in rich
    from report.model_tables import parts  # noqa: PLC0415

    tell(parts(facts))

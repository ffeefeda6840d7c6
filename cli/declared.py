"""Commands whose parameters are the options of records, and their help in groups."""

from __future__ import annotations

import copy
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

from cli.files import text_of
from planner.requests.options.option import (
    REQUIRED,
    Declared,
    Group,
    check_values,
    declared,
    option_of,
)
from planner.requests.sources import Document

MOST_EXPLAINED = 20
"""Options that `--help` explains one by one; of more, those that matter first."""
WIDTH = 100
"""Columns of a help text, if the terminal has as many."""
_ALL = "help all"
_OTHER = "Options"

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class Said(Generic[Record]):
    """The options of a record that were given."""

    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Taken:
    """A record that a function takes."""

    record: type
    options: tuple[Declared, ...]
    is_open: bool
    """The function takes what was given of it, as `Said`."""

    def parameters(self) -> Iterator[inspect.Parameter]:
        for each in self.options:
            default = None if self.is_open else _default(each)
            form: Any = _form(each.form)
            form = Annotated[form | None if self.is_open else form, typer_option(each)]
            yield inspect.Parameter(
                each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=form
            )

    def value(self, given: dict[str, Any]) -> object:
        """The record; what is taken for it is removed from the arguments that are given."""
        said = {each.name: _read(each, given.pop(each.name)) for each in self.options}
        if self.is_open:
            return Said({name: value for name, value in said.items() if value is not None})
        record = self.record(**said)
        check_values(record)
        return record


def command(function: Callable[..., None]) -> Callable[..., None]:
    """The function as a command: a parameter that is a record becomes the options of the record.

    Args:
        function: takes records with options (`planner.requests.options`), `Said` of such records,
            and what is named by its place: `Annotated[Path, Option(...)]`. Its name is the
            command's.
    """
    hints = get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters
    found = ((name, _taken(hints[name], _name(function))) for name in parameters)
    taken = {name: each for name, each in found if each is not None}
    others = [
        each.replace(annotation=_argument(name, hints[name]))
        for name, each in parameters.items()
        if name not in taken
    ]
    options = [each for own in taken.values() for each in own.parameters()]

    def run(**given: Any) -> None:
        given.pop("help_all", None)
        records = {name: each.value(given) for name, each in taken.items()}
        function(**given, **records)

    if len(options) > MOST_EXPLAINED:
        options.append(_help_all())
    run.__name__, run.__doc__, run.__module__ = (
        function.__name__, function.__doc__, function.__module__
    )  # fmt: skip
    run.__signature__ = inspect.Signature([*others, *options])  # type: ignore[attr-defined]
    run.__annotations__ = {}
    return run


def _name(function: Callable[..., None]) -> str:
    return function.__name__.replace("_", "-")


def _taken(hint: Any, name: str) -> _Taken | None:
    is_open = get_origin(hint) is Said
    record = get_args(hint)[0] if is_open else hint
    if not (isinstance(record, type) and is_dataclass(record)):
        return None
    return _Taken(record, tuple(declared(record, name)), is_open)


def _argument(name: str, hint: Any) -> Any:
    option = option_of(hint)
    if option is None:
        return hint
    form = get_args(hint)[0]
    return Annotated[form, typer_option(Declared(name, form, REQUIRED, option))]


def _form(form: Any) -> Any:
    """The type of a parameter of typer for the type of a field."""
    if form == tuple[str, ...]:
        return list[str] | None
    return Path | None if Document in get_args(form) else form


def _default(each: Declared) -> Any:
    if each.default is REQUIRED:
        return inspect.Parameter.empty
    return None if each.default == () else each.default


def _read(each: Declared, given: Any) -> Any:
    """The value of a field for that of a parameter.

    Raises:
        UserError: it is a file that cannot be read.
    """
    if each.form == tuple[str, ...]:
        return tuple(given or ())
    if given is None or Document not in get_args(each.form):
        return given
    option, where = each.option, f"{each.flags[0]} {given}"
    return Document(str(given), text_of(given, where, option.file, most=option.most_bytes))


def typer_option(each: Declared) -> Any:
    """The option as typer has it."""
    option, shown = each.option, each.default not in {None, (), REQUIRED}
    if option.group is Group.ARGUMENTS:
        return typer.Argument(
            metavar=each.value, help=option.help, show_default=False, rich_help_panel=option.group
        )
    return typer.Option(
        *each.flags, metavar=None if _is_flag(each.form) else each.value, help=option.help,
        show_default=option.usual or shown, envvar=option.variable or None,
        rich_help_panel=option.group, hidden=not option.first,
    )  # fmt: skip


def _is_flag(form: Any) -> bool:
    return form is bool


def answering(flag: str, explained: str, text: Callable[[typer.Context], str]) -> Any:
    """A flag that prints a text in place of what the command does, as typer has it."""

    def say(context: typer.Context, wanted: bool) -> None:
        if wanted:
            print(text(context))
            raise typer.Exit

    return typer.Option(flag, callback=say, is_eager=True, show_default=False, help=explained)


def _help_all() -> inspect.Parameter:
    def text(context: typer.Context) -> str:
        context.meta[_ALL] = True
        return context.get_help()

    form = Annotated[bool, answering("--help-all", "Explain all options and exit.", text)]
    return inspect.Parameter(
        "help_all", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=form
    )


class Grouped(TyperCommand):
    """A command whose help has its options in groups, those that matter first explained."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options of the help."""
        params: list[Any] = self.get_params(ctx)
        every = ctx.meta.get(_ALL, False) or all(p.name != "help_all" for p in params)
        for group in (*Group, _OTHER):
            own = [p for p in params if (p.rich_help_panel or _OTHER) == group]
            if own:
                _write_group(str(group), own, ctx, formatter, every=every)
        if not every:
            formatter.write_paragraph()
            formatter.write_text(f"`{ctx.command_path} --help-all` explains all options.")


def _write_group(group: str, own: list[Any], ctx: Any, formatter: Any, *, every: bool) -> None:
    explained = [p for p in own if every or not p.hidden]
    others = [p for p in own if p not in explained]
    with formatter.section(group):
        if explained:
            formatter.write_dl([_explained(p, ctx) for p in explained])
        if others:
            names = ", ".join(
                " ".join((" / ".join(p.opts), p.metavar or "")).strip() for p in others
            )
            formatter.write(_filled(f"{'also: ' * bool(explained)}{names}", formatter))


def _filled(text: str, formatter: Any) -> str:
    """Lines that break between options alone."""
    indent = " " * formatter.current_indent
    lines = textwrap.fill(
        text, formatter.width, initial_indent=indent, subsequent_indent=f"{indent}  ",
        break_on_hyphens=False, break_long_words=False,
    )  # fmt: skip
    return f"{lines}\n"


def _explained(param: Any, ctx: Any) -> tuple[str, str]:
    shown = copy.copy(param)
    shown.hidden = False
    record: tuple[str, str] = shown.get_help_record(ctx)
    return record

"""An option is declared once: command, help, request and schema derive from it."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter
from typer.testing import CliRunner

import cli.command_options as of_commands
from cli.calibrate_host import HostCommand, host
from cli.calibrate_links import LinksCommand, links
from cli.calibrate_profile import ProfileCommand, profile
from cli.calibrate_steps import StepsCommand, steps
from cli.declared import MOST_EXPLAINED, Grouped, Said, command
from cli.diff import diff
from cli.explain import explain
from cli.export import ExportCommand, export
from cli.import_strategy import ImportStrategyCommand, import_strategy
from cli.inspect import InspectCommand
from cli.inspect import inspect as inspect_model
from cli.layouts import layouts
from cli.main import app
from cli.mcp import McpCommand, mcp
from cli.rank_table_options import HccnCommand, RankTableCommand
from cli.rank_tables import hccn, rank_table
from cli.reshard import reshard
from cli.reshard_options import ReshardCommand
from cli.run import RunCommand, run
from cli.search import search
from cli.serve import ServeCommand, serve
from cli.show import ShowCommand, show
from cli.simulate import simulate
from cli.size_options import Sizes, SizesCommand
from cli.sizes import sizes
from cli.solve import SolveCommand, solve
from cli.topology import CheckMachine, DrawMachine, ShowMachine, check, draw
from cli.topology import show as show_machine
from cli.validate import ValidateCommand, validate
from cli.verify import VerifyCommand, verify
from cli.whatif import whatif
from ir.dialects import TARGETS
from planner.lowering.pricing import COSTS
from planner.requests.errors import UserError
from planner.requests.options.explanations import ExplanationOptions
from planner.requests.options.option import Group, Option, check_values, declared
from planner.requests.options.searches import SearchOptions
from planner.requests.options.simulations import LayoutOptions, RankingOptions, SimulationOptions
from planner.requests.options.sweeps import SweepOptions
from planner.requests.search_request import search_request
from planner.requests.sources import Document
from planner.requests.verification import VerificationOptions
from planner.solvers import RECURSIVE, SOLVERS

pytestmark = pytest.mark.fast

Planner = Callable[..., Any]
RECORDS: dict[Callable[..., None], tuple[type, ...]] = {
    search: (SearchOptions, of_commands.SearchCommand),
    simulate: (SimulationOptions, LayoutOptions, of_commands.SimulateCommand),
    whatif: (SearchOptions, SweepOptions, of_commands.WhatifCommand),
    layouts: (RankingOptions, of_commands.LayoutsCommand),
    explain: (ExplanationOptions, of_commands.ServedCommand),
    verify: (VerificationOptions, VerifyCommand),
    export: (ExportCommand,),
    reshard: (ReshardCommand,),
    solve: (SolveCommand,),
    validate: (ValidateCommand,),
    serve: (ServeCommand,),
    mcp: (McpCommand,),
    run: (RunCommand,),
    show: (ShowCommand,),
    diff: (of_commands.Printed,),
    inspect_model: (SearchOptions, InspectCommand),
    sizes: (SearchOptions, Sizes, SizesCommand),
    import_strategy: (SearchOptions, ImportStrategyCommand),
    links: (SearchOptions, LinksCommand),
    steps: (StepsCommand,),
    host: (HostCommand,),
    profile: (SearchOptions, ProfileCommand),
    show_machine: (ShowMachine,),
    draw: (DrawMachine,),
    check: (CheckMachine,),
    rank_table: (RankTableCommand,),
    hccn: (HccnCommand,),
}
UNDER = {
    "topology": (show_machine, draw, check, rank_table, hccn),
    "calibrate": (links, steps, host, profile),
}  # fmt: skip
ARGUMENTS = {
    "model", "subject", "plan", "other", "instance", "rows", "file", "logs", "name", "tables",
    "traces",
}  # fmt: skip
LINES, EXPLAINED = 100, 10


def name_of(function: Callable[..., None]) -> str:
    return function.__name__.replace("_", "-")


def path_of(function: Callable[..., None]) -> list[str]:
    """How a command line names a command."""
    groups = [name for name, commands in UNDER.items() if function in commands]
    return [*groups, name_of(function)]


def options_of(function: Callable[..., None]) -> Iterator[tuple[str, Option]]:
    for record in RECORDS[function]:
        for each in declared(record, name_of(function)):
            for flag in each.flags:
                yield flag.partition("/")[0], each.option


def help_of(*arguments: str) -> str:
    """At 80 columns, as the runner has it."""
    found = CliRunner().invoke(app, [*arguments], prog_name="planner")
    assert found.exit_code == 0, found.output
    return found.stdout


@pytest.mark.parametrize("function", RECORDS, ids=name_of)
def test_a_command_takes_what_its_records_declare_and_nothing_else(
    function: Callable[..., None],
) -> None:
    taken = {name for name in inspect.signature(function).parameters if name != "help_all"}
    own = {each.name for r in RECORDS[function] for each in declared(r, name_of(function))}
    assert taken - own <= ARGUMENTS
    assert own <= taken


@pytest.mark.parametrize("function", RECORDS, ids=name_of)
def test_no_parameter_is_listed_by_hand(function: Callable[..., None]) -> None:
    file = inspect.getsourcefile(inspect.getmodule(function) or function)
    tree = ast.parse(Path(str(file)).read_text())
    (found,) = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == function.__name__
    )
    assert len(found.args.args) + len(found.args.kwonlyargs) <= 4


def test_what_typer_takes_is_made_of_declarations_alone() -> None:
    """Options and arguments; `--help-all` and `--version` answer by themselves, in `answering`."""
    root = Path(str(inspect.getsourcefile(of_commands))).parent
    makers = {
        file.name
        for file in root.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in {"Option", "Argument"}
        and ast.unparse(node.value).startswith("typer")
    }  # fmt: skip
    assert makers == {"declared.py"}


def commands_of(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, each in group.commands.items():
        if hasattr(each, "commands"):
            yield from commands_of(each, (*path, name))
        else:
            yield (*path, name), each


def test_every_parameter_of_every_command_has_a_group_of_the_help() -> None:
    import typer  # noqa: PLC0415

    ours = {*Group, None}
    found = dict(commands_of(typer.main.get_command(app)))
    assert len(found) > len(RECORDS)
    for path, each in found.items():
        strangers = [p.name for p in each.params if getattr(p, "rich_help_panel", None) not in ours]
        assert strangers == [], path
        assert {p.name for p in each.params if p.rich_help_panel is None} <= {"help_all"}, path


@pytest.mark.parametrize("function", RECORDS, ids=name_of)
def test_help_names_every_option_under_its_group(function: Callable[..., None]) -> None:
    text = help_of(*path_of(function), "--help")
    sections = dict(re.findall(r"^(\w[\w' ]+):\n((?:  .*\n|\n(?=  ))+)", text, re.MULTILINE))
    for flag, option in options_of(function):
        section = sections[option.group]
        assert re.search(rf"(?<![\w-]){flag}(?![\w-])", section), (flag, option.group)
    order = [group for group in Group if group in sections]
    assert [name for name in sections if name in set(Group)] == order


@pytest.mark.parametrize("function", RECORDS, ids=name_of)
def test_all_help_explains_every_option(function: Callable[..., None]) -> None:
    few = len({id(option) for _, option in options_of(function)}) <= MOST_EXPLAINED
    text = " ".join(help_of(*path_of(function), "--help" if few else "--help-all").split())
    for flag, option in options_of(function):
        words = " ".join(option.help.split())
        assert words.replace("-", "")[:60] in text.replace("- ", "").replace("-", ""), flag


def test_help_of_search_fits_two_screens_and_explains_ten_options() -> None:
    text = help_of("search", "--help")
    assert len(text.splitlines()) <= LINES
    assert "`planner search --help-all` explains all options." in text
    words = text.split()
    explained = {
        flag
        for flag, option in options_of(search)
        if option.help.split()[:4] in [words[i : i + 4] for i in range(len(words))]
    }
    assert explained == {flag for flag, option in options_of(search) if option.first}
    assert len({option for _, option in options_of(search) if option.first}) == EXPLAINED


def test_the_help_after_all_help_is_the_short_one_again() -> None:
    short = help_of("search", "--help")
    assert len(help_of("search", "--help-all")) > 2 * len(short)
    assert help_of("search", "--help") == short


def test_the_choices_are_those_that_the_planner_knows() -> None:
    choices = {each.name: each.option.choices for each in declared(SearchOptions)}
    assert choices["target"] == tuple(TARGETS)
    assert choices["cost"] == COSTS
    assert choices["solver"] == (*SOLVERS, RECURSIVE)


def asked(name: str, word: str) -> SearchOptions:
    options: Any = {name: word}
    return SearchOptions(**options)


def test_every_choice_is_taken_and_another_word_is_not() -> None:
    for each in declared(SearchOptions):
        for word in each.option.choices:
            check_values(asked(each.name, word))
        if each.option.counts:
            check_values(asked(each.name, "3"))
        if each.option.choices:
            with pytest.raises(UserError, match=f"at:  {each.flags[0]} other"):
                search_request(asked(each.name, "other"))


@pytest.mark.parametrize("record", [SearchOptions, SimulationOptions, SweepOptions])
def test_a_number_out_of_the_range_of_its_option_is_refused(record: type) -> None:
    ranged = [each for each in declared(record) if each.option.least is not None]
    assert ranged
    for each in ranged:
        least, most = each.option.least or 0, each.option.most
        for value in (least, least if most is None else most):
            check_values(record(**{each.name: value}))
        for value in (least - 1, -(10**9) if most is None else most + 1):
            with pytest.raises(UserError, match=f"at:  {each.flags[0]} {value}\n"):
                check_values(record(**{each.name: value}))


@pytest.mark.parametrize(
    "record",
    [SearchOptions, SimulationOptions, LayoutOptions, SweepOptions, VerificationOptions],
)
def test_the_schema_of_a_request_says_what_the_help_says(record: type) -> None:
    made = TypeAdapter(record).json_schema()
    assert set(made["properties"]) == {each.name for each in fields(record)}
    for each in declared(record):
        found = made["properties"][each.name]
        assert found["description"] == each.option.help
        assert found["x-group"] == each.option.group
        closed = () if each.option.counts else each.option.choices
        assert [v for v in found.get("enum", []) if v is not None] == list(closed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Brew:
    """Options of a command that there is not."""

    strength: Annotated[int, Option(group=Group.SEARCH, value="N", help="How strong.")]
    milk: Annotated[tuple[str, ...], Option(group=Group.SEARCH, help="With what.")] = ()
    recipe: Annotated[
        Document | None, Option(group=Group.SEARCH, help="A text.", file="name a recipe")
    ] = None
    sweet: Annotated[bool, Option(group=Group.SEARCH, help="With sugar.")] = False
    tea: Annotated[int, Option(group=Group.SEARCH, help="Of others.", commands=("brew-tea",))] = 3
    hidden: int = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Cup:
    """Options that may be left out together."""

    size: Annotated[str, Option(group=Group.OUTPUT, help="How large.")]
    colour: Annotated[str, Option(group=Group.OUTPUT, help="Which.")] = "white"


def brewed(*arguments: object) -> tuple[Any, ...]:
    """What a function is called with."""
    import typer  # noqa: PLC0415

    made: list[tuple[Any, ...]] = []

    def brew(name: str, asked: Brew, said: Said[Cup]) -> None:
        made.append((name, asked, dict(said.values)))

    brew.__annotations__ |= {"asked": Brew, "said": Said[Cup]}
    own = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    own.command(cls=Grouped)(command(brew))
    found = CliRunner().invoke(own, [str(each) for each in arguments])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    assert found.exit_code == 0, found.output
    return made[0]


def test_a_record_is_built_of_what_is_given_and_of_its_defaults(tmp_path: Path) -> None:
    assert brewed("x", "--strength", 2) == ("x", Brew(strength=2), {})
    recipe = tmp_path / "recipe"
    recipe.write_text("stir")
    given = ("--milk", "oat", "--milk", "cow", "--sweet", "--recipe", recipe, "--colour", "blue")
    _, asked, said = brewed("x", "--strength", 2, *given)
    text = Document(str(recipe), "stir")
    assert asked == Brew(strength=2, milk=("oat", "cow"), sweet=True, recipe=text)
    assert said == {"colour": "blue"}


def test_an_option_without_a_default_must_be_given_and_one_of_others_cannot_be() -> None:
    with pytest.raises(AssertionError, match="Missing option '--strength'"):
        brewed("x")
    with pytest.raises(AssertionError, match="No such option: --tea"):
        brewed("x", "--strength", 2, "--tea", 1)


def test_a_file_that_cannot_be_read_is_named_with_its_option(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"at:  --recipe .*none\n  fix: name a recipe"):
        brewed("x", "--strength", 2, "--recipe", tmp_path / "none")


def test_what_is_missing_is_told_with_an_example_of_the_command() -> None:
    import typer  # noqa: PLC0415

    asked = 0
    for path, each in commands_of(typer.main.get_command(app)):
        if any(param.required for param in each.params):
            found = CliRunner().invoke(app, [*path], prog_name="planner")
            what, at, fix = found.stderr.splitlines()
            assert found.exit_code == 2
            assert what.startswith("error: missing ")
            assert at == f"  at:  planner {' '.join(path)}"
            assert fix.endswith(f"`planner {' '.join(path)} --help` lists what it takes")
            example = f"  fix: such as `planner {' '.join(path)} "
            assert fix.startswith(example) or "Examples" not in (each.epilog or ""), fix
            asked += 1
    assert asked > 10


@pytest.mark.parametrize("group", ["topology", "calibrate", "jobs", "mindspore"])
def test_a_group_without_a_command_says_which_there_are(group: str) -> None:
    found = CliRunner().invoke(app, [group], prog_name="planner")
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr.startswith(f"Usage: planner {group} ")
    assert "error" not in found.stderr


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("solve", "x", "--seed", "two"), "invalid value for '--seed': not a whole number"),
        (("solve", "x", "--time-limit", "long"), "invalid value for '--time-limit': not a number"),
        (("serve", "--port", "70000"), "70000 is more than 65535"),
        (("serve", "--port", "-1"), "-1 is less than 0"),
        (("simulate", "llama3-8b"), "there is no plan llama3-8b"),
    ],
)
def test_a_slip_is_told_in_plain_words(arguments: tuple[str, ...], what: str) -> None:
    found = CliRunner().invoke(app, [*arguments], prog_name="planner")
    assert found.exit_code == 2
    assert found.stderr.splitlines()[0] == f"error: {what}"

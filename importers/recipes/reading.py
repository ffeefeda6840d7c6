"""Recipes of all frameworks: which one some files are of, and what they amount to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from importers.errors import ModelError
from importers.files import file_size, readable
from importers.recipes.arguments import shell_file
from importers.recipes.documents import gin_file, json_file, toml_file, yaml_file
from importers.recipes.python import python_file
from ir.recipes.forms import Scalar, spelled
from ir.recipes.quantities import Quantities, Value
from ir.recipes.recipe import Recipe, RecipeFile
from ir.recipes.table import Framework, framework, readable_names

__all__ = ["MOST_BYTES", "read_recipe", "recipe_of", "recipe_of_texts"]

MOST_BYTES = 2**21
"""Of one file; those that frameworks publish have some ten thousand."""
_MOST_FILES = 32
_READERS = {
    ".yaml": yaml_file, ".yml": yaml_file, ".json": json_file, ".toml": toml_file,
    ".gin": gin_file,
}  # fmt: skip
_OFF = frozenset({"null", "false", "", "no", "off"})
_MANY_MARKS = 4
_PARALLEL = re.compile(
    r"parallel|shard|zero|recomp|checkpoint.?activ|activation.?checkpoint|micro.?batch|batch.?size"
    r"|stage|overlap|fsdp|expert|offload|precision|fp8|fp16|bf16|dtype|schedule|remat|pipe|swap"
    r"|mesh|replica",
    re.IGNORECASE,
)
"""What the names of settings contain that are of parallelism, memory or types."""


def read_recipe(
    names: Sequence[str],
    asked: str = "",
    said: Mapping[str, Value] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Recipe:
    """What some files amount to.

    Args:
        names: paths; `FILE.py:function` chooses a recipe of a Python file.
        asked: name of the framework; the one whose settings they have, if empty.
        said: quantities that the user states, which stand before what files say.
        environment: variables that scripts are started with; `1` is a first argument.

    Raises:
        ModelError: a file cannot be read, or is of no framework that is known.
    """
    if len(names) > _MOST_FILES:
        raise ModelError(f"{len(names)} files are more than {_MOST_FILES}", "", "name fewer")
    texts, functions = {}, {}
    for name in names:
        path, _, function = name.partition(".py:")
        path = f"{path}.py" if function else name
        texts[path], functions[path] = _text(Path(path)), function
    return recipe_of_texts(texts, functions, asked, said, environment)


def recipe_of_texts(
    texts: Mapping[str, str],
    functions: Mapping[str, str] | None = None,
    asked: str = "",
    said: Mapping[str, Value] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Recipe:
    """As `read_recipe`, from the texts of the files by name."""
    chosen = functions or {}
    context = {name for name in texts if name.endswith(".py") and not chosen.get(name)}
    if not any(chosen.values()):
        context.clear()  # all are read where nobody names a function
    context |= {name for name in texts if _is_sourced(name, texts)}
    files = tuple(
        _file(n, texts, chosen.get(n, ""), environment or {}) for n in texts if n not in context
    )
    found = framework(_name(asked)) if asked else _recognised(files)
    return recipe_of(found, files, said)


def recipe_of(
    found: Framework, files: tuple[RecipeFile, ...], said: Mapping[str, Value] | None = None
) -> Recipe:
    """What the settings of files amount to in a framework."""
    quantities = Quantities()
    for name, value in (said or {}).items():
        quantities.say(name, value, "the command")
    files = tuple(_spelled_as(found, file) for file in files)
    given: dict[str, Scalar] = {}
    lines: dict[str, str] = {}
    for file in files:
        for each in file.given:
            given[each.name] = each.value
            lines[each.name] = f"{Path(file.name).name} line {each.line} {each.name}"
    found.read(given, lines, quantities)
    folders = {name.rpartition(".")[0] for name in given}
    unread = [name for name in given if name not in folders and _is_unread(name, found)]
    notes = [
        f"{name} ({found.noted[name]}) is not priced"
        for name, value in given.items()
        if found.noted.get(name) and spelled(value) not in _OFF
    ]
    return Recipe(found, files, quantities, dict(said or {}), tuple(unread), tuple(notes))


def _spelled_as(found: Framework, file: RecipeFile) -> RecipeFile:
    """Settings as the table spells them: many parsers take `-` and `_` alike."""
    if file.syntax == "python":
        return file

    def own(name: str) -> str:
        name = name.removeprefix("training.") if found.name == "nemo" else name
        spellings = (name, name.replace("_", "-"), name.replace("-", "_"))
        return next((each for each in spellings if found.reads(each)), name)

    return replace(file, given=tuple(replace(each, name=own(each.name)) for each in file.given))


def _is_unread(name: str, found: Framework) -> bool:
    known = found.reads(name) or name in found.noted or found.neutral.search(name)
    return not known and _PARALLEL.search(name) is not None


def _name(asked: str) -> str:
    if asked not in readable_names():
        known = ", ".join(readable_names())
        raise ModelError(f"there is no framework {asked!r}", "--framework", f"choose of {known}")
    return asked


def _text(path: Path) -> str:
    with readable(path):
        file_size(path, MOST_BYTES, "name the recipe alone", inside="name the files inside it")
        raw = path.read_bytes()
    if b"\0" in raw:
        raise ModelError(f"{path.name} is no text", str(path), "name a recipe")
    return raw.decode("utf-8", errors="replace").replace("\r\n", "\n")


def _is_sourced(name: str, texts: Mapping[str, str]) -> bool:
    """Whether another script given reads or starts a script."""
    pattern = re.compile(
        rf"^\s*(?:source|\.|bash|sh)\s+\S*\b{re.escape(Path(name).name)}\b", re.MULTILINE
    )
    scripts = (text for other, text in texts.items() if other != name and _is_script(other))
    return _is_script(name) and any(pattern.search(text) for text in scripts)


def _is_script(name: str) -> bool:
    suffix = Path(name).suffix.lower()
    return suffix != ".py" and suffix not in _READERS


def _file(
    name: str, texts: Mapping[str, str], function: str, environment: Mapping[str, str]
) -> RecipeFile:
    suffix = Path(name).suffix.lower()
    if suffix == ".py":
        others = {n: t for n, t in texts.items() if n != name and n.endswith(".py")}
        return python_file(name, texts[name], function, others)
    if suffix in _READERS:
        return _READERS[suffix](name, texts[name])
    scripts = {Path(n).name: t for n, t in texts.items() if n != name and _is_script(n)}
    return shell_file(name, texts[name], environment, scripts)


def _recognised(files: Iterable[RecipeFile]) -> Framework:
    """The framework most of whose marks the files have; what runs under others yields to them."""
    own = tuple(files)
    names = {each.name for file in own for each in file.given}
    names |= {
        each.name.replace("-", "_") for file in own if file.syntax == "shell" for each in file.given
    }
    ranks = {name: _marks_of(framework(name), names) for name in readable_names()}
    best = max(ranks, key=lambda name: ranks[name])
    if not ranks[best][1]:
        settings = ", ".join(sorted(names)[:6]) or "none"
        raise ModelError(
            f"these files are of no framework that is known: their settings are {settings}",
            "FILE",
            f"say which with --framework: {', '.join(readable_names())}",
        )
    return framework(best)


def _marks_of(found: Framework, names: set[str]) -> tuple[bool, int, bool]:
    """How well settings fit a framework, to be compared.

    What extends another framework and has none of its marks needs many of its own.
    """
    own = sum(mark in names for mark in found.marks)
    base = sum(mark in names for mark in framework(found.extends).marks) if found.extends else 0
    marks = own + base if own and (base or not found.extends or own >= _MANY_MARKS) else 0
    return bool(marks) and not found.yields, marks, not found.extends

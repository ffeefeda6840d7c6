"""Names of the arguments of MindSpore's primitives in order, from the source of the package."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from mindspore import ops

_FOLDER = Path(ops.__file__).parent
_FILES = ("auto_generate/gen_ops_prim.py", "operations/manually_defined/ops_def.py")
_OLDER = tuple(f"operations/{name}_ops.py" for name in ("array", "math", "nn", "other", "image"))


def arguments() -> dict[str, list[str]]:
    """By primitive: all arguments of newer ones, the tensors of older ones."""
    found: dict[str, list[str]] = {}
    for file in (*_FILES, *_OLDER):
        for node in ast.parse((_FOLDER / file).read_text()).body:
            if isinstance(node, ast.ClassDef):
                names = next(_called(node), None) or next(_declared(node), None)
                if names and all(name.isidentifier() for name in names):
                    found.setdefault(node.name, names)
    return dict(sorted(found.items()))


def _called(node: ast.ClassDef) -> Iterator[list[str]]:
    """What `__call__` hands on."""
    calls = [m for m in node.body if isinstance(m, ast.FunctionDef) and m.name == "__call__"]
    for each in (n for call in calls for n in ast.walk(call) if isinstance(n, ast.Call)):
        function = each.func
        if isinstance(function, ast.Name) and function.id.startswith("pyboost_"):
            if len(each.args) == 2 and isinstance(each.args[1], ast.List):
                yield [_name(a) for a in each.args[1].elts]
        elif isinstance(function, ast.Attribute) and function.attr == "__call__":
            yield [_name(a) for a in each.args]


def _name(argument: ast.expr) -> str:
    """`self.axis`, or `dtype_to_type_id('Cast', 'dtype', dtype)`: the name that it is about."""
    text = ast.unparse(argument)
    quoted = re.search(r"'\w+', '(\w+)'", text)
    return quoted[1] if quoted else text.removeprefix("self.").removeprefix("new_generated_")


def _declared(node: ast.ClassDef) -> Iterator[list[str]]:
    """What `init_prim_io_names` names."""
    for each in ast.walk(node):
        if not isinstance(each, ast.Call) or not isinstance(each.func, ast.Attribute):
            continue
        if each.func.attr == "init_prim_io_names":
            yield from (ast.literal_eval(k.value) for k in each.keywords if k.arg == "inputs")

"""Full names of primitives in the network that MindSpore compiles, from those of the exported file.

`mindspore.export` merges equal primitives before it names them, the parallel passes name them
first: a reshape that three `nn.Dense` share has a name in each. And what `+` and its like become is
one function for the whole network, which has the scope in which it was first used: in an exported
cell that is none, and every use gets the scope of its caller; within another cell all stand in that
of the exported one.

Source: what MindSpore 2.10.0 saves and exports for networks with either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ir.file_primitives import FilePrimitive

_OPERATORS, _LAYERS = (
    frozenset(names.split())
    for names in (
        """Add Adds Div Divs Equal FloorDiv Greater GreaterEqual Less LessEqual Mod Mul Muls Neg
        NotEqual Pow RealDiv Sub Subs""",
        """AvgPool2d BatchNorm1d BatchNorm2d Conv1d Conv2d Conv2dTranspose Conv3d Dense Dropout
        Embedding Flatten GELU GroupNorm LayerNorm MaxPool2d RMSNorm ReLU SiLU Sigmoid Softmax
        Tanh""",
    )
)
"""Primitives of Python's operators, and cells of `mindspore.nn` that hold their primitives."""


def compiled_names(
    primitives: Sequence[FilePrimitive], *, inside: bool
) -> Iterator[tuple[str, FilePrimitive]]:
    """Every name that a primitive may have once it is compiled, the likelier ones first.

    A name that the network has not is passed over by MindSpore.

    Args:
        primitives: of the file, in order.
        inside: whether the exported cell is within another one.
    """
    moved = [each for each in primitives if each.kind in _OPERATORS]
    if inside:
        yield from _in_first_scope(moved)
    yield from _apart(primitives)
    yield from ((each.name, each) for each in primitives)
    if inside:
        yield from _in_first_scope([each for each in primitives if _may_move(each)])


def _may_move(each: FilePrimitive) -> bool:
    """Whether a primitive may be that of a function or of a method of tensors: no layer holds it,
    and reshapes stay where they are.
    """
    cell = _scope(each.name).rpartition("-")[2]
    return each.kind != "Reshape" and each.kind not in _OPERATORS and cell not in _LAYERS


def _in_first_scope(primitives: Sequence[FilePrimitive]) -> Iterator[tuple[str, FilePrimitive]]:
    """Primitives under the exported cell, from the first of their kind that it has itself on."""
    count: Counter[str] = Counter()
    for each in primitives:
        scope = _scope(each.name)
        own = scope.count("/") == 0
        if own or count[each.kind]:
            root = scope.partition("/")[0]
            yield f"{root}/{each.kind}-op{count[each.kind]}", each
            count[each.kind] += 1


def _apart(primitives: Sequence[FilePrimitive]) -> Iterator[tuple[str, FilePrimitive]]:
    """Primitives of cells that share some, each cell with its own."""
    work = _Sharing(primitives)
    order: dict[tuple[str, str], FilePrimitive] = {}
    changed: set[str] = set()
    for each in primitives:
        scope = _scope(each.name)
        for shared in work.of(each):
            order[scope, shared.name] = shared
            changed.add(scope)
        order[scope, each.name] = each
    count: Counter[tuple[str, str]] = Counter()
    for (scope, _), each in order.items():
        if scope in changed:
            yield f"{scope}/{each.kind}-op{count[scope, each.kind]}", each
            count[scope, each.kind] += 1


class _Sharing:
    """Which primitives of a cell a cell like it would hold too."""

    def __init__(self, primitives: Iterable[FilePrimitive]) -> None:
        self.made = {each.name: each for each in primitives}
        self.read: dict[tuple[str, str, int], set[str]] = {}
        """By what is read, the kind of the reader and its operand: scopes of the readers."""
        for each in self.made.values():
            for place, maker in enumerate(each.makers):
                self.read.setdefault((maker, each.kind, place), set()).add(_scope(each.name))

    def of(self, reader: FilePrimitive) -> list[FilePrimitive]:
        """What a primitive reads that another cell holds for both, the first made first."""
        out: list[FilePrimitive] = []
        scope = _scope(reader.name)
        for place, maker in enumerate(reader.makers):
            made = self.made.get(maker)
            if made is None or not _alike(_scope(made.name), scope):
                continue
            if _scope(made.name) in self.read[maker, reader.kind, place]:
                out += self._chain(made)
        return out

    def _chain(self, last: FilePrimitive) -> list[FilePrimitive]:
        """A primitive with those of its cell in front of it."""
        out = [last]
        while out[0].makers:
            before = self.made.get(out[0].makers[0])
            if before is None or _scope(before.name) != _scope(last.name):
                break
            out.insert(0, before)
        return out


def _alike(one: str, other: str) -> bool:
    """Whether two scopes are different cells of the same classes.

    >>> _alike("Default/a-Net/q-Dense", "Default/a-Net/k-Dense")
    True
    """
    classes = [[step.partition("-")[2] for step in scope.split("/")[1:]] for scope in (one, other)]
    return one != other and classes[0] == classes[1] != []


def _scope(name: str) -> str:
    return name.rpartition("/")[0]

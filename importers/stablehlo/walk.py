"""The walk through a program: functions that are called are read in place, loops are unrolled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from importers.errors import ModelError, UnsupportedError
from importers.stablehlo.call import as_view, view_call
from importers.stablehlo.draft import View
from importers.stablehlo.locations import scope_of
from importers.stablehlo.program import Function, Module, Operation, Symbol
from importers.stablehlo.table import NOTHING, TABLE
from importers.stablehlo.tokens import AGAIN
from importers.stablehlo.views import ViewDraft, repeated, tensor_of
from importers.traced.writer import Attribute

MAX_OPERATIONS = 200_000
MAX_DEPTH = 120
MAX_ROUNDS = 1024
MAX_TEXT = 1000
_ENDS = frozenset({"return", "stablehlo.return"})
Values = dict[str, View]


@dataclass(slots=True)
class Walk:
    """Operations become steps of a draft."""

    module: Module
    where: str
    draft: ViewDraft = field(default_factory=ViewDraft)
    notes: dict[str, None] = field(default_factory=dict)
    kinds: Counter[str] = field(default_factory=Counter)
    """Operations by what the file, or the graph for what it does not know, calls them."""
    becomes: dict[str, dict[str, None]] = field(default_factory=dict)
    _count: int = 0
    _depth: int = 0
    _calls: list[str] = field(default_factory=list)

    def function(self, function: Function, operands: Sequence[View], scope: str) -> list[View]:
        """What a function returns for operands.

        Raises:
            ModelError: functions call each other without end.
        """
        if len(operands) != len(function.arguments):
            raise self._fault(f"@{function.name} has {len(function.arguments)} arguments", 0)
        if function.name in self._calls:
            path = " calls ".join(f"@{n}" for n in [*self._calls, function.name][-4:])
            raise self._fault(f"functions call each other without end: {path}", 0)
        values: Values = {}
        for argument, view in zip(function.arguments, operands, strict=True):
            if view.dims != argument.type.dims:
                raise self._fault(f"@{function.name} is called with other dims", 0)
            values[argument.value] = view
        self._calls.append(function.name)
        found = self.block(function.operations, values, scope)
        self._calls.pop()
        return found

    def block(self, operations: Sequence[Operation], values: Values, scope: str) -> list[View]:
        """What the operation at the end returns."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            line = operations[0].line if operations else 0
            raise self._fault(f"functions and bodies are nested more than {MAX_DEPTH} deep", line)
        found = self._ended(operations, values, scope)
        self._depth -= 1
        return found

    def _ended(self, operations: Sequence[Operation], values: Values, scope: str) -> list[View]:
        for operation in operations:
            self._count += 1
            if self._count > MAX_OPERATIONS:
                raise self._fault(
                    f"the program has more than {MAX_OPERATIONS} operations when it is written out",
                    operation.line,
                )
            operands = [self._value(n, values, operation) for n in operation.operands]
            if operation.name in _ENDS:
                return operands
            found = self._results(operation, operands, values, self._scope(operation, scope))
            if len(found) != len(operation.results):
                raise self._fault(
                    f"{operation.name} makes {len(found)} values, not {len(operation.results)}",
                    operation.line,
                )
            values.update(zip(operation.results, found, strict=True))
        raise self._fault("a body does not end", operations[-1].line if operations else 0)

    def _value(self, name: str, values: Values, operation: Operation) -> View:
        if name not in values:
            raise self._fault(f"{name} is read before it is made", operation.line)
        return values[name]

    def _scope(self, operation: Operation, outer: str) -> str:
        name = operation.location
        own = scope_of(self.module.locations.get(name, "") if name.startswith("#") else name)
        if operation.name in {"call", "func.call"}:
            own = scope_of(f"{own}/") if own else ""
        return ".".join(part for part in (outer, own) if part) if own != outer else outer

    def _results(
        self, operation: Operation, operands: list[View], values: Values, scope: str
    ) -> list[View]:
        name = operation.name
        if name in {"call", "func.call"}:
            return self.function(self._callee(operation, "callee"), operands, scope)
        if name == "stablehlo.composite":
            return self._composite(operation, operands, scope)
        if name == "stablehlo.while":
            return self._loop(operation, operands, values, scope)
        if name in {"stablehlo.case", "stablehlo.if"}:
            return self._branch(operation, operands, values, scope)
        if name == "stablehlo.custom_call" and _target(operation) in NOTHING:
            return operands[: len(operation.results)]
        return self._step(operation, operands, scope)

    def _callee(self, operation: Operation, key: str) -> Function:
        found = operation.attributes.get(key)
        name = found.name if isinstance(found, Symbol) else str(found)
        if name not in self.module.functions:
            raise self._fault(f"there is no function @{name}", operation.line)
        return self.module.functions[name]

    def _composite(self, operation: Operation, operands: list[View], scope: str) -> list[View]:
        """An operation with a decomposition: itself if the table has it, else its parts."""
        name = str(operation.attributes.get("value", operation.attributes.get("name", "")))
        if name in TABLE:
            self.kinds[name] += 1
            found = self._converted(name, operation, operands, scope)
            if found is not None:
                return found
        return self.function(self._callee(operation, "decomposition"), operands, scope)

    def _loop(
        self, operation: Operation, operands: list[View], values: Values, scope: str
    ) -> list[View]:
        """A loop written out; one whose end is not known stays one operator."""
        if len(operation.regions) != 2:
            raise self._fault("a loop has no two bodies", operation.line)
        condition, body = operation.regions
        mark = self.draft.mark()
        state = operands
        for index in range(MAX_ROUNDS):
            (going,) = self._region(condition.arguments, condition.operations, state, values, scope)
            known = self.draft.scalar(going.name)
            if known is None:
                self.draft.forget(mark)
                return self._unknown(operation, operands, scope)
            if not known:
                return state
            inner = f"{scope}.{index}" if scope else f"round_{index}"
            state = self._region(body.arguments, body.operations, state, values, inner)
        raise self._fault(f"a loop has more than {MAX_ROUNDS} rounds", operation.line)

    def _region(
        self, arguments: tuple[str, ...], operations: Sequence[Operation], state: list[View],
        values: Values, scope: str,
    ) -> list[View]:  # fmt: skip
        if len(arguments) not in {0, len(state)}:
            raise self._fault("a body has other arguments than values", 0)
        inner = {**values, **dict(zip(arguments, state, strict=False))}
        return self.block(operations, inner, scope)

    def _branch(
        self, operation: Operation, operands: list[View], values: Values, scope: str
    ) -> list[View]:
        """The branch that is taken, or a choice between the results of two."""
        regions = operation.regions
        if not regions or len(operands) != 1:
            raise self._fault("a choice has no branches", operation.line)
        known = self.draft.scalar(operands[0].name)
        if operation.name == "stablehlo.if":
            regions = regions[::-1]
        if known is not None:
            index = min(max(int(known), 0), len(regions) - 1)
            if int(known) != index:
                index = len(regions) - 1
            return self._region((), regions[index].operations, [], values, scope)
        if len(regions) != 2:
            return self._unknown(operation, operands, scope)
        no, yes = (self._region((), r.operations, [], values, scope) for r in regions)
        self.notes["both branches of a choice are computed"] = None
        call = view_call(self.draft, operation, operands, scope, self._place(operation))
        flag = call.cast(operands[0], "bool")
        return [
            as_view(call.select(repeated(flag, y.dims, ()), y, n))
            for y, n in zip(yes, no, strict=True)
        ]

    def _step(self, operation: Operation, operands: list[View], scope: str) -> list[View]:
        self.kinds[operation.name] += operation.name in TABLE
        found = self._converted(operation.name, operation, operands, scope)
        return self._unknown(operation, operands, scope) if found is None else found

    def _converted(
        self, name: str, operation: Operation, operands: list[View], scope: str
    ) -> list[View] | None:
        """What the table makes of an operation; None where it has no equal."""
        if name not in TABLE:
            return None
        entry, place = TABLE[name], self._place(operation)
        call = view_call(self.draft, operation, operands, scope, place, entry)
        mark = self.draft.mark()
        try:
            entry.convert(call)
        except UnsupportedError:
            self.draft.forget(mark)
            return None
        kinds = (step.kind for step in self.draft.steps[mark[0] :])
        self.becomes.setdefault(name, {}).update(dict.fromkeys(kinds))
        return call.results_made()

    def _unknown(self, operation: Operation, operands: list[View], scope: str) -> list[View]:
        """An operation that the table lacks keeps its name, and is described with `--rule`."""
        space, _, name = operation.name.rpartition(".")
        if operation.name == "stablehlo.custom_call":
            space, name = "custom_call", _target(operation)
        kind = f"{space or 'mlir'}::{name}"
        self.kinds[kind] += 1
        names = [tensor_of(self.draft, v, scope) for v in operands]
        attributes: dict[str, Attribute] = {
            k: v
            for k, v in operation.attributes.items()
            if isinstance(v, int | float | str) and k.isidentifier() and len(str(v)) <= MAX_TEXT
        }
        attributes.pop("callee", None)
        results = [(t.dims, t.dtype) for t in operation.types]
        if not results:
            return []
        made = self.draft.steps_of(kind, names, results, scope, **attributes)
        return [self.draft.plain(n) for n in made]

    def _place(self, operation: Operation) -> str:
        return f"{self.where}, line {operation.line}"

    def _fault(self, what: str, line: int) -> ModelError:
        return ModelError(
            what,
            f"{self.where}, line {line}" if line else self.where,
            AGAIN,
        )


def _target(operation: Operation) -> str:
    found = operation.attributes.get("callee", operation.attributes.get("call_target_name", ""))
    return found.name if isinstance(found, Symbol) else str(found)

"""The ONNX importer: a model file becomes an `OpGraph` with bound dims and without weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import onnx

from importers.clean_up import cleaned
from importers.errors import ModelError, unknown_dimension
from importers.facts import FileFacts, OpenDim
from importers.mindspore.onnx_files import as_network, mend, trained_in
from importers.onnx_attributes import to_ops
from importers.onnx_branches import known_branch
from importers.onnx_checks import describe
from importers.onnx_dimensions import check_bindings, declared_names, shown_names
from importers.onnx_file import read_model
from importers.onnx_node import kind_of, name_results, node_context
from importers.onnx_roles import tensor_table, with_gradients
from importers.onnx_shapes import ShapeInference
from importers.onnx_unknown_sizes import value_inputs
from ir.graph import GraphError, Op, OpGraph
from ir.ops import check_operators
from ir.symbols import Binding, sample_points
from ir.texts import visible

_MALFORMED = (
    ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError,
)  # fmt: skip
"""What reading raises for a file that is wrong in a way that nobody foresaw."""


def import_onnx(path: Path, bind: Binding | None = None) -> OpGraph:
    """Read a `.onnx` or `.onnx.gz` file.

    Args:
        path: the file; external weights need not exist.
        bind: sizes of the model's dynamic dimensions by name. One with a range of sizes gives the
            graph variants, see `ir.symbols`.

    Raises:
        ModelError: the file cannot be read or planned from.
        SymbolError: too many dimensions have ranges.
    """
    points = sample_points(bind or {})
    with blamed(str(path)):
        model = read_model(path)
        for point in points:
            check_bindings(model, point, value_inputs(model))
        name = visible(path.name).removesuffix(".gz").removesuffix(".onnx")
        graph, *variants = (_at(model, name, point, points[0]) for point in points)
        return replace(graph, variants=tuple(variants))


def model_facts(path: Path) -> FileFacts:
    """Facts of the model in a file.

    Raises:
        ModelError: it cannot be read.
    """
    model = read_model(path)
    stored = {t.name for t in model.graph.initializer}
    return FileFacts(
        producer=f"{model.producer_name} {model.producer_version}".strip(),
        kinds=kinds_in(model),
        open_dims=tuple(
            OpenDim(value.name, axis, dim.dim_param)
            for value in model.graph.input
            if value.name not in stored
            for axis, dim in enumerate(value.type.tensor_type.shape.dim)
            if not dim.HasField("dim_value")
        ),
        opsets={entry.domain or "ai.onnx": entry.version for entry in model.opset_import},
    )


def kinds_in(model: onnx.ModelProto) -> Counter[str]:
    """How many nodes of each kind a model has, without those inside of control flow."""
    return Counter(kind_of(node) for node in model.graph.node)


def _at(
    model: onnx.ModelProto, name: str, point: Mapping[str, int], planned: Mapping[str, int]
) -> OpGraph:
    """The model at one value of its symbols; an error at another than the planned one says so."""
    try:
        trained = trained_in(model)
        mend(model)
        graph = import_model(model, name, point, trained)
        return cleaned(graph if trained is None else as_network(graph))
    except ModelError as error:
        if point == planned:
            raise
        values = ", ".join(f"{name}={size}" for name, size in point.items())
        raise ModelError(f"{error.what} (where {values})", error.where, error.fix) from error


def import_model(
    model: onnx.ModelProto,
    name: str,
    bind: Mapping[str, int] | None = None,
    trained: frozenset[str] | None = None,
) -> OpGraph:
    """As `import_onnx`, from a model at hand that was checked before.

    Args:
        model: the model.
        name: what the graph is called.
        bind: sizes of its dynamic dimensions.
        trained: its stored tensors that are parameters, where that is known.

    Raises:
        ModelError: it cannot be planned from.
    """
    with blamed(name):
        return with_gradients(_graph(model, name, bind or {}, trained))


@contextmanager
def blamed(where: str) -> Iterator[None]:
    """Turn whatever reading stumbles over into one error that says where."""
    try:
        yield
    except ModelError:
        raise
    except GraphError as error:
        raise ModelError(str(error), where, "export the model again") from error
    except _MALFORMED as error:
        raise ModelError(
            f"the model is malformed: {type(error).__name__}: {error}",
            where,
            "export the model again; if it runs elsewhere, report it",
        ) from error


def _graph(
    model: onnx.ModelProto,
    name: str,
    bound: Mapping[str, int],
    trained: frozenset[str] | None,
) -> OpGraph:
    inference = ShapeInference(model, bound, trained=trained)
    found = _uniquely_named(_walk(model.graph.node, inference))
    facts = inference.facts
    unused = sorted(bound.keys() - inference.used - declared_names(model))
    if unused:
        raise unknown_dimension(unused[0], shown_names(declared_names(model)))
    stored = {t.name for t in model.graph.initializer}
    stored.update(t.values.name for t in model.graph.sparse_initializer)
    results = dict.fromkeys(o.name for o in model.graph.output)
    outputs = tuple(o for o in results if o not in facts.constant)
    inputs = tuple(i.name for i in model.graph.input if i.name not in stored)
    ops = _live(found, outputs)
    if not ops:
        raise ModelError(
            "no operator computes an output from an input or a weight",
            f"outputs of {name}",
            "export the model with its inputs",
        )
    tensors = tensor_table(ops, inputs, outputs, facts)
    symbols = dict(sorted(bound.items()))
    graph = OpGraph(name, tensors, tuple(ops), inputs, outputs, symbols=symbols)
    graph.validate()
    check_operators(graph)
    return graph


def _walk(nodes: Sequence[onnx.NodeProto], inference: ShapeInference) -> Iterator[Op]:
    """Operators of the nodes, in order; `If` with a constant condition is one of its branches."""
    for index, node in enumerate(nodes):
        with blamed(describe(node, index)):
            branch = known_branch(node, inference.facts.value)
            if branch is None:
                name_results(node, inference.facts)
                constant = inference.visit(node)
                context = node_context(node, index, inference.facts, inference.opset)
                found = [] if constant else to_ops(context)
            else:
                inference.enter(branch)
                found = list(_walk(branch.node, inference))
        yield from found


def _uniquely_named(ops: Iterator[Op]) -> list[Op]:
    """Operators with names of their own; exporters may repeat the name of a node."""
    taken: set[str] = set()
    named: list[Op] = []
    for op in ops:
        name, count = op.name, 1
        while name in taken:
            count += 1
            name = f"{op.name}#{count}"
        taken.add(name)
        named.append(op if name == op.name else replace(op, name=name))
    return named


def _live(ops: list[Op], outputs: tuple[str, ...]) -> list[Op]:
    """Operators that some output depends on; unused trailing results are cut off."""
    wanted = set(outputs)
    kept: list[Op] = []
    for op in reversed(ops):
        if not wanted.intersection(op.outputs):
            continue
        last = max(i for i, n in enumerate(op.outputs) if n in wanted)
        wanted.update(n for n in op.inputs if n)
        kept.append(replace(op, outputs=op.outputs[: last + 1]))
    kept.reverse()
    return kept

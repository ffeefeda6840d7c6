"""A Hugging Face config.json: the sizes of a network, from which its operator graph is built."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from importers.errors import ModelError
from importers.facts import FileFacts, OpenDim
from importers.files import read_json_object
from importers.hf_network import network_from
from importers.transformers import Network, build_network, constant_numbers
from importers.transformers.fillings import Array
from ir.graph import OpGraph
from ir.ops import check_operators
from ir.symbols import Binding, sample_points
from ir.texts import visible

MOST_BYTES = 2**22
"""Of a config.json; those with a thousand labels have some ten thousand."""
USUAL_SEQUENCE = 4096
"""Tokens in a sequence where nobody says how many, or as many as there are positions if fewer."""
MOST_ROWS = 2**24
MOST_BATCH = 2**24

BATCH, SEQUENCE, TARGET_SEQUENCE = "batch", "sequence", "target_sequence"
"""Dimensions that the sizes leave open, as `--bind` calls them."""
TARGET_INPUTS = ("decoder_input_ids",)
"""Inputs of a decoder behind an encoder."""


def read_config(path: Path) -> Mapping[str, object]:
    """The fields of a config.json.

    Raises:
        ModelError: it cannot be read.
    """
    return read_json_object(path, MOST_BYTES, "pass the config.json of a model, or an .onnx file")


def import_hf_config(path: Path, bind: Binding | None = None) -> OpGraph:
    """Read a config.json.

    Args:
        path: the file.
        bind: `batch`, `sequence` and, for a decoder behind an encoder, `target_sequence`; one with
            a range of sizes gives the graph variants, see `ir.symbols`.

    Raises:
        ModelError: the file cannot be read, or describes nothing that is known.
    """
    config = read_config(path)
    kind = config.get("model_type")
    name = str(kind) if path.stem == "config" and isinstance(kind, str) else path.stem
    return import_config(config, visible(name), str(path), bind)


def import_config(
    config: Mapping[str, object], name: str, where: str, bind: Binding | None = None
) -> OpGraph:
    """As `import_hf_config`, from the fields.

    Args:
        config: the fields of a config.json.
        name: of the graph.
        where: of the fields, for errors.
        bind: as above.
    """
    network = network_from(config, name, where)
    points = sample_points(bind or {})
    graph, *variants = (_at(network, point, where) for point in points)
    return replace(graph, variants=tuple(variants))


def config_facts(path: Path) -> FileFacts:
    """Facts of the network in a config.json.

    Raises:
        ModelError: it cannot be read, or describes nothing that is known.
    """
    classes = read_config(path).get("architectures")
    first = classes[0] if isinstance(classes, list) and classes else ""
    return sized_facts(import_hf_config(path), f"sizes of {first or 'a transformer'}")


def sized_facts(graph: OpGraph, producer: str) -> FileFacts:
    """Facts of a graph that was built from sizes."""
    return FileFacts(producer, Counter(op.kind for op in graph.ops), open_dimensions(graph))


def open_dimensions(graph: OpGraph) -> tuple[OpenDim, ...]:
    """The dimensions that `bind` sets of inputs of a graph that was built from sizes."""
    found: list[OpenDim] = []
    for name in graph.inputs:
        found.append(OpenDim(name, 0, BATCH))
        if not graph.tensors[name].is_float:
            found.append(OpenDim(name, 1, TARGET_SEQUENCE if name in TARGET_INPUTS else SEQUENCE))
    return tuple(found)


def _usual(network: Network, given: Mapping[str, int]) -> dict[str, int]:
    """Sizes of the open dimensions where nobody sets them; a target is as long as its source."""
    first, last = network.stacks[0].entry, network.stacks[-1].entry
    usual = min(network.positions or USUAL_SEQUENCE, USUAL_SEQUENCE)
    found = {BATCH: 1}
    if first.kind == "tokens":
        found[SEQUENCE] = usual
    if last is not first:
        source = given.get(SEQUENCE, usual)
        found[TARGET_SEQUENCE] = min(last.table, source) if last.table else source
    return found


def _at(network: Network, point: Mapping[str, int], where: str) -> OpGraph:
    """The network at one value of its open dimensions."""
    known = _usual(network, point)
    batch, rows = _shape(network, point, where)
    notes = network.notes + tuple(
        f"{name} {known[name]} by default; --bind {name}=N sets it"
        for name in known
        if name not in point and name != BATCH
    )
    graph = build_network(replace(network, notes=notes), batch, rows)
    check_operators(graph)
    return replace(graph, symbols=dict(sorted(point.items())))


def constant_values(
    config: Mapping[str, object],
    where: str,
    names: Iterable[str],
    bind: Mapping[str, int],
) -> dict[str, Array]:
    """Numbers of those tensors of the graph that nobody trains, such as masks and positions."""
    network = network_from(config, "model", where)
    batch, rows = _shape(network, bind, where)
    return constant_numbers(network, batch, rows, names)


def _shape(network: Network, point: Mapping[str, int], where: str) -> tuple[int, tuple[int, ...]]:
    """The batch, and the rows of every stack."""
    known = _usual(network, point)
    unknown = sorted(point.keys() - known.keys())
    if unknown:
        raise ModelError(
            f"{network.name} has no open dimension {unknown[0]!r}; it has {', '.join(known)}",
            f"--bind {unknown[0]}={point[unknown[0]]}",
            "bind one of those",
        )
    sizes = {**known, **point}
    for name, size in sizes.items():
        _check_size(name, size, MOST_BATCH if name == BATCH else MOST_ROWS)
    rows = tuple(
        stack.entry.rows or sizes[SEQUENCE if stack is network.stacks[0] else TARGET_SEQUENCE]
        for stack in network.stacks
    )
    _check_positions(network, rows, where)
    return sizes[BATCH], rows


def _check_size(name: str, size: int, most: int) -> None:
    if not 1 <= size <= most:
        raise ModelError(
            f"{name} is {size}, which is not between 1 and {most}",
            f"--bind {name}={size}",
            "bind it to a number in between",
        )


def _check_positions(network: Network, rows: tuple[int, ...], where: str) -> None:
    for stack, length in zip(network.stacks, rows, strict=True):
        if 0 < stack.entry.table < length:
            raise ModelError(
                f"a sequence of {length} is longer than the {stack.entry.table} positions that "
                f"{network.name} has learned",
                where,
                f"ask for a sequence of at most {stack.entry.table}",
            )

"""Damaged models of every format: reading one succeeds or fails with a `ModelError`."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from importers.errors import ModelError
from importers.mindir.reading import import_mindir
from importers.onnx import import_onnx
from importers.stablehlo import import_stablehlo
from importers.torch_export import import_torch
from ir.batch import BatchError, with_batch
from ir.normalise import add_ends, normalise
from ir.ops import check_operators
from tests.importers.onnx_models import control_flow, mlp, shape_arithmetic
from tests.importers.torch_export.hostile import archive

DATA = Path(__file__).parents[1] / "data"
MARKS = '%0123456789[]{}()<>=,:x#@" ?-'
WRONG: tuple[Any, ...] = (None, -1, 0, 3, 2**40, 1.5, "x", "", [], {}, [0], {"ref": "x"}, True)


def damaged_bytes(data: bytes, chance: random.Random) -> bytes:
    """A truncated, flipped, overwritten, shortened or lengthened copy."""
    out = bytearray(data)
    if chance.random() < 0.1:
        out = out[: chance.randrange(len(out))]
    for _ in range(chance.choice((1, 1, 2, 4))):
        if not out:
            break
        place, way = chance.randrange(len(out)), chance.random()
        if way < 0.5:
            out[place] ^= 1 << chance.randrange(8)
        elif way < 0.7:
            out[place] = chance.randrange(256)
        elif way < 0.85:
            del out[place : place + chance.randrange(1, 4)]
        else:
            out[place:place] = chance.randbytes(chance.randrange(1, 4))
    return bytes(out)


def damaged_text(text: str, chance: random.Random) -> str:
    """A copy with three other letters."""
    letters = list(text)
    for _ in range(3):
        letters[chance.randrange(len(letters))] = chance.choice(MARKS)
    return "".join(letters)


def damage_record(record: Any, chance: random.Random) -> None:
    """Change or remove one value somewhere inside."""
    place = record
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = chance.choice(keys)
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or chance.random() < 0.1:
            break
        place = inner
    if chance.random() < 0.3:
        del place[key]
    else:
        place[key] = chance.choice(WRONG)


def read_onnx(path: Path) -> None:
    """What is read is a graph that can be planned, at another batch too."""
    data = path.read_bytes()
    graph = import_onnx(path, {"batch": 2, "seq": 4} if b"seq" in data else {"batch": 2})
    with suppress(BatchError):
        graph = with_batch(graph, 6)
    ready = add_ends(normalise(graph), training=True)
    ready.validate()
    check_operators(ready)


@dataclass(frozen=True)
class Target:
    """A format: how often, who writes a damaged file into a folder, and who reads it."""

    rounds: int
    written: Callable[[Path, random.Random], Path]
    read: Callable[[Path], object]


def onnx(make: Callable[[], Any]) -> Target:
    data: bytes = make().SerializeToString()
    return Target(
        800, lambda at, chance: _saved(at, ".onnx", damaged_bytes(data, chance)), read_onnx
    )


def mindir(name: str) -> Target:
    data = (DATA / "mindir" / f"{name}.mindir").read_bytes()
    return Target(
        40, lambda at, chance: _saved(at, ".mindir", damaged_bytes(data, chance)), import_mindir
    )


def stablehlo(name: str) -> Target:
    text = (DATA / "jax" / f"{name}.mlir").read_text()
    return Target(
        60, lambda at, chance: _saved(at, ".mlir", damaged_text(text, chance).encode()),
        import_stablehlo,
    )  # fmt: skip


def torch_graph(name: str) -> Target:
    text = (DATA / "torch" / f"{name}.fx.json").read_text()

    def written(folder: Path, chance: random.Random) -> Path:
        record = json.loads(text)
        for _ in range(chance.randrange(1, 4)):
            damage_record(record, chance)
        return _saved(folder, ".fx.json", json.dumps(record).encode())

    return Target(80, written, import_torch)


def torch_archive(folder: Path, chance: random.Random) -> Path:
    return archive(folder, lambda program: damage_record(program, chance))


def _saved(folder: Path, ending: str, data: bytes) -> Path:
    path = folder / f"model{ending}"
    path.write_bytes(data)
    return path


TARGETS: dict[str, Callable[[], Target]] = {
    **{f"onnx {m.__name__}": partial(onnx, m) for m in (mlp, shape_arithmetic, control_flow)},
    **{f"mindir {name}": partial(mindir, name) for name in ("calls", "experts")},
    **{f"stablehlo {name}": partial(stablehlo, name) for name in ("experts", "residual")},
    **{
        f"torch graph {name}": partial(torch_graph, name)
        for name in ("experts", "transformer", "residual_core")
    },
    "torch archive": partial(Target, 160, torch_archive, import_torch),
}


@pytest.mark.parametrize("name", TARGETS)
def test_a_damaged_model_is_read_or_refused(tmp_path: Path, name: str) -> None:
    """A longer run of the first found nothing in 50,000."""
    target, chance = TARGETS[name](), random.Random(name)
    refusals: list[ModelError] = []
    for _ in range(target.rounds):
        try:
            target.read(target.written(tmp_path, chance))
        except ModelError as error:
            refusals.append(error)
    assert len(refusals) > target.rounds // 10
    assert all(e.what and e.where and e.fix for e in refusals)

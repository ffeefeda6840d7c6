"""Damaged models: whatever bytes a file holds, reading it succeeds or fails with a `ModelError`."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest

from importers.errors import ModelError
from importers.onnx import import_onnx
from ir.batch import BatchError, with_batch
from ir.normalise import add_ends, normalise
from ir.ops import check_operators
from tests.importers.onnx_models import control_flow, mlp, shape_arithmetic

ROUNDS = 400
"""Damaged files of each model and seed; a longer run found nothing in 50,000."""
MODELS = (mlp, shape_arithmetic, control_flow)


def damaged(data: bytes, chance: random.Random) -> bytes:
    """A truncated, flipped, shortened or lengthened copy."""
    out = bytearray(data)
    if chance.random() < 0.1:
        out = out[: chance.randrange(len(out))]
    for _ in range(chance.choice((1, 1, 2, 4))):
        if not out:
            break
        place, way = chance.randrange(len(out)), chance.random()
        if way < 0.6:
            out[place] ^= 1 << chance.randrange(8)
        elif way < 0.8:
            del out[place : place + chance.randrange(1, 4)]
        else:
            out[place:place] = chance.randbytes(chance.randrange(1, 4))
    return bytes(out)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("make", MODELS, ids=lambda m: m.__name__)
def test_a_damaged_model_is_read_or_refused(tmp_path: Path, make: object, seed: int) -> None:
    assert callable(make)
    data = make().SerializeToString()
    chance = random.Random(seed)
    path = tmp_path / "model.onnx"
    refusals: list[ModelError] = []
    for _ in range(ROUNDS):
        path.write_bytes(damaged(data, chance))
        try:
            graph = import_onnx(path, {"batch": 2, "seq": 4} if b"seq" in data else {"batch": 2})
        except ModelError as error:
            refusals.append(error)
            continue
        with suppress(BatchError):
            graph = with_batch(graph, 6)
        ready = add_ends(normalise(graph), training=True)
        ready.validate()
        check_operators(ready)
    assert len(refusals) > ROUNDS // 4
    assert all(e.what and e.where and e.fix for e in refusals)

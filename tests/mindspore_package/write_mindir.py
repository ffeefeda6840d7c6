"""Makes the files of `tests/data/mindir`.

`python -m tests.mindspore_package.write_mindir [FOLDER]` from the root, with MindSpore's Python.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import nn
from mindspore.train import serialization

from tests.mindspore_package.mindir_arguments import arguments
from tests.mindspore_package.mindir_blocks import BLOCKS, Branch, Calls, Mlp
from tests.mindspore_package.mindir_operators import cases

HERE = Path(__file__).parents[1] / "data" / "mindir"


def exported(cell: Any, inputs: list[Any], target: Path, *, apart: bool, **options: Any) -> None:
    """Write a cell as MindSpore exports it.

    Args:
        cell: the network.
        inputs: tensors as it is called with.
        target: the file.
        apart: leave the weights out, as MindSpore does from 1 GB on.
        options: of the export.
    """
    serialization.TOTAL_SAVE = 0 if apart else 2**20
    cell.set_train(mode=False)
    with tempfile.TemporaryDirectory() as folder:
        before = Path.cwd()
        os.chdir(folder)  # MindSpore leaves folders behind
        try:
            ms.export(cell, *inputs, file_name=f"{folder}/net", file_format="MINDIR", **options)
        finally:
            os.chdir(before)
        shutil.copyfile(Path(folder) / ("net_graph.mindir" if apart else "net.mindir"), target)


class Calling(nn.Cell):
    """A function or a primitive as a network."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def construct(self, *operands: Any) -> Any:
        return self.function(*operands)


def operators(folder: Path) -> None:
    """Each case as a file, with operands and results as MindSpore computes them."""
    found, target = [], folder / "case.mindir"
    for name, function, operands in cases():
        cell = function if isinstance(function, nn.Cell) else Calling(function)
        result = _computed(cell, operands)
        try:
            exported(cell, list(operands), target, apart=False)
        except Exception as error:  # noqa: BLE001  whatever MindSpore raises
            sys.stderr.write(f"left out: {name}: {str(error)[:200]!r}\n")
            continue
        found.append(
            {
                "name": name,
                "file": base64.b64encode(target.read_bytes()).decode(),
                "operands": [_numbers(t) for t in _flat(operands)],
                "results": None if result is None else [_numbers(t) for t in _flat(result)],
            }
        )
        target.unlink()
    text = json.dumps(found, separators=(",", ":"))
    (folder / "operators.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def _computed(cell: Any, operands: tuple[Any, ...]) -> Any:
    """What it makes; None for primitives that run on Ascend only."""
    try:
        return cell(*operands)
    except (RuntimeError, TypeError) as error:
        sys.stderr.write(f"not run: {str(error)[:200]!r}\n")
        return None


def _flat(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [leaf for each in value for leaf in _flat(each)]
    return [value]


def _numbers(tensor: Any) -> dict[str, Any]:
    array = tensor.asnumpy()
    return {
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "values": array.reshape(-1).tolist(),
    }


def blocks(folder: Path) -> None:
    """Each block, without its weights."""
    for name, (cell, shape) in BLOCKS.items():
        data = ms.Tensor(np.zeros(shape, np.float32))
        exported(cell(), [data], folder / f"{name}.mindir", apart=True)


def others(folder: Path) -> None:
    """Calls, branches, open sizes, ciphers."""
    ms.set_seed(3)
    pair = [ms.Tensor(np.ones((4, 8), np.float32)) for _ in range(2)]
    calls = Calls()
    exported(calls, pair, folder / "calls.mindir", apart=False)
    weights = {name: _numbers(p) for name, p in calls.parameters_dict().items()}
    (folder / "calls.json").write_text(json.dumps(weights) + "\n")
    exported(Branch(), pair[:1], folder / "branch.mindir", apart=False)
    open_rows = ms.Tensor(shape=[None, 512], dtype=ms.float32)
    exported(Mlp(), [open_rows], folder / "open.mindir", apart=True)
    for cipher in ("AES-GCM", "AES-CBC", "SM4-CBC"):
        key = {"enc_key": b"0123456789abcdef", "enc_mode": cipher}
        exported(calls, pair, folder / f"{cipher.lower()}.mindir", apart=False, **key)


def main(folder: Path) -> None:
    """All of them."""
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_device("CPU")
    text = json.dumps(arguments(), separators=(",", ":"))
    (folder / "arguments.json").write_text(text + "\n")
    blocks(folder)
    others(folder)
    operators(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)

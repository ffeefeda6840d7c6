"""Archives and graphs that were tampered with."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from importers.errors import ModelError
from importers.torch_export import import_torch
from tests.importers.torch_export.recorded import DATA

GRAPH = "mlp/models/model.json"


def archive(
    folder: Path,
    change: Callable[[dict[str, Any]], object] | None = None,
    more: Mapping[str, bytes] | None = None,
) -> Path:
    """The archive of the MLP with another graph, and with more entries."""
    path = folder / "mlp.pt2"
    with zipfile.ZipFile(DATA / "mlp.pt2") as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name == GRAPH and change is not None:
                program = json.loads(data)
                change(program)
                data = json.dumps(program).encode()
            if name not in (more or {}):
                target.writestr(name, data, zipfile.ZIP_DEFLATED)
        for name, data in (more or {}).items():
            target.writestr(name, data, zipfile.ZIP_DEFLATED)
    return path


def fx_graph(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """The graph of the MLP, changed."""
    record = json.loads((DATA / "mlp.fx.json").read_text())
    change(record)
    path = folder / "mlp.fx.json"
    path.write_text(json.dumps(record))
    return path


def refused(path: Path, bind: Mapping[str, int] | None = None) -> ModelError:
    with pytest.raises(ModelError) as caught:
        import_torch(path, bind)
    assert caught.value.what
    assert caught.value.where
    assert caught.value.fix
    return caught.value

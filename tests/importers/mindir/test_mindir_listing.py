"""The primitives of MindIR files by their full names."""

from __future__ import annotations

from pathlib import Path

import pytest

from importers.errors import ModelError
from importers.mindir.listing import listed_primitives
from importers.mindir.reading import import_mindir

pytestmark = pytest.mark.fast

MINDIR = Path(__file__).parents[2] / "data" / "mindir"


@pytest.mark.parametrize("name", ["mlp", "transformer", "residual", "experts"])
def test_operands_come_from_what_is_named(name: str) -> None:
    path = MINDIR / f"{name}.mindir"
    found, graph = listed_primitives(path), import_mindir(path)
    names = {each.name for each in found}
    sources = {t.source or t.name for t in graph.tensors.values()} | set(graph.inputs)
    assert len(names) == len(found)
    for each in found:
        assert each.name.startswith("Default/")
        assert each.kind in each.name
        assert len(each.makers) == len(each.operands)
        for maker in each.makers:
            assert not maker or maker in names or maker in sources


def test_dims_are_those_of_the_file() -> None:
    first = next(p for p in listed_primitives(MINDIR / "mlp.mindir") if p.kind == "MatMul")
    weight = import_mindir(MINDIR / "mlp.mindir").tensors[first.makers[1]]
    stored = weight.stored_permutation or (0, 1)
    assert first.operands[1] == tuple(weight.dims[stored.index(i)] for i in range(2))


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.mindir"
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(ModelError):
        listed_primitives(path)
    with pytest.raises(ModelError, match="encrypted"):
        listed_primitives(MINDIR / "aes-gcm.mindir")

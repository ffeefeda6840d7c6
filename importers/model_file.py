"""Models of every kind behind one record: what MODEL on the command line can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from importers.facts import FileFacts
from importers.files import is_there

if TYPE_CHECKING:
    from importers.onnx_values import Array
    from ir.graph import OpGraph
    from ir.symbols import Binding

_HEAD_BYTES = 4096


def _no_ranges(path: Path, bound: Collection[str]) -> Mapping[str, str]:
    del path, bound
    return {}


@dataclass(frozen=True, slots=True)
class ModelFormat:
    """One way in. Its functions raise `ModelError` for a file that cannot be read."""

    graph: Callable[[Path, Binding], OpGraph]
    """The operator graph, with sizes for its open dimensions."""
    facts: Callable[[Path], FileFacts]
    numbers: Callable[[Path, Iterable[str], Mapping[str, int]], dict[str, Array]]
    """Arrays that the file holds, of those tensors."""
    ranges: Callable[[Path, Collection[str]], Mapping[str, str]] = _no_ranges
    """Sizes of open dimensions that the file itself says, as `--bind` takes them; of those that
    are not bound."""
    needs_sizes: bool = False
    """Whether open dimensions must be given sizes before there is a graph."""


def model_format(path: Path) -> ModelFormat:
    """The way in for a file, by its name; what has no file may be the name of a published model.

    Raises:
        ModelError: there is neither a file nor a published model of this name.
    """
    lower = path.name.lower()
    known = next((each for suffix, each in _BY_SUFFIX if lower.endswith(suffix)), None)
    if is_there(path):
        is_graph = lower.endswith(".json") and _is_fx_graph(path)
        return _torch() if is_graph else (known or _onnx)()
    if known is not None or path.name != str(path):
        return ModelFormat(_absent, _absent, _absent, _absent)
    from importers.sizes import check_published  # noqa: PLC0415  brings in yaml

    check_published(str(path))
    return published_format()


def import_model_file(path: Path, bind: Binding | None = None) -> OpGraph:
    """The operator graph of a model file or of a published model."""
    return model_format(path).graph(path, bind or {})


def open_batch(path: Path) -> str | None:
    """Name of the open dimension that is the batch: dimension 0 of most inputs that leave it open;
    none where the file needs no size for it.

    Raises:
        ModelError: the file cannot be read.
    """
    form = model_format(path)
    if not form.needs_sizes:
        return None
    names = Counter(dim.name for dim in form.facts(path).open_dims if dim.axis == 0)
    return names.most_common(1)[0][0] if names else None


def published_format() -> ModelFormat:
    """The way in for the name of a published model, whose sizes are bundled."""
    from importers.hf_config import constant_values, sized_facts  # noqa: PLC0415
    from importers.sizes import import_published, published  # noqa: PLC0415  brings in yaml

    return ModelFormat(
        lambda path, bind: import_published(str(path), bind),
        lambda path: sized_facts(import_published(str(path)), "published sizes"),
        lambda path, names, bind: constant_values(
            published(str(path)).config, str(path), names, bind
        ),
    )


def _is_fx_graph(path: Path) -> bool:
    """Whether a file begins as an FX graph written as JSON does; False where it cannot be read."""
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
    except OSError:
        return False
    return head.lstrip()[:1] == b"{" and b'"nodes"' in head and b'"op"' in head


def _onnx() -> ModelFormat:
    """`.onnx` and `.onnx.gz`, and whatever has no other suffix that is known."""
    from importers.onnx import import_onnx, model_facts  # noqa: PLC0415  brings in onnx
    from importers.onnx_constants import constant_values  # noqa: PLC0415
    from importers.onnx_file import told_ranges  # noqa: PLC0415

    return ModelFormat(import_onnx, model_facts, constant_values, told_ranges, needs_sizes=True)


def _torch() -> ModelFormat:
    """A PyTorch program: a `.pt2` archive, or an FX graph as JSON."""
    from importers.torch_export import reading  # noqa: PLC0415  brings in onnx

    return ModelFormat(
        reading.import_torch, reading.program_facts, reading.constant_values,
        reading.program_ranges, needs_sizes=True,
    )  # fmt: skip


def _mindir() -> ModelFormat:
    """A `.mindir` file of MindSpore."""
    from importers.mindir import reading  # noqa: PLC0415  brings in onnx

    return ModelFormat(
        reading.import_mindir, reading.mindir_facts, reading.constant_values, reading.told_ranges,
        needs_sizes=True,
    )  # fmt: skip


def _stablehlo() -> ModelFormat:
    """A JAX program: StableHLO as text, which has no weights."""
    from importers.stablehlo import reading  # noqa: PLC0415  brings in onnx

    return ModelFormat(reading.import_stablehlo, reading.program_facts, reading.constant_values)


def _config() -> ModelFormat:
    """A Hugging Face config.json."""
    from importers import hf_config  # noqa: PLC0415

    return ModelFormat(
        hf_config.import_hf_config, hf_config.config_facts,
        lambda path, names, bind: hf_config.constant_values(
            hf_config.read_config(path), str(path), names, bind
        ),
    )  # fmt: skip


def _absent(path: Path, *_: object) -> NoReturn:
    """A file that there is not, found out when it is read: other faults of a request come first."""
    from importers.sizes import no_model  # noqa: PLC0415  brings in yaml

    raise no_model(str(path), is_file=True)


_BY_SUFFIX: tuple[tuple[str, Callable[[], ModelFormat]], ...] = (
    (".onnx", _onnx), (".onnx.gz", _onnx), (".pt2", _torch), (".fx.json", _torch),
    (".mindir", _mindir), (".mlir", _stablehlo), (".stablehlo", _stablehlo),
    (".jaxpr", _stablehlo), (".json", _config),
)  # fmt: skip
"""By the end of the file's name; the first that fits counts. A file of another name is ONNX."""

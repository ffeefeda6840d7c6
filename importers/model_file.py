"""Models of every kind behind one protocol: what MODEL on the command line can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from importers.errors import ModelError
from importers.json_file import is_there
from importers.torch_recognition import is_fx_graph

if TYPE_CHECKING:
    import onnx

    from importers.onnx_values import Array
    from ir.graph import OpGraph
    from ir.symbols import Binding


@dataclass(frozen=True, slots=True)
class OpenDim:
    """A dimension of an input that the file leaves open."""

    tensor: str
    axis: int
    name: str


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What a model file says of itself."""

    producer: str
    opsets: Mapping[str, int]
    """Version of every operator set by domain, e.g. `{"ai.onnx": 20}`; none but for ONNX."""
    kinds: Mapping[str, int]
    """Nodes by kind, as the file names them."""
    open_dims: tuple[OpenDim, ...]
    becomes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Kinds of ONNX that kinds of the file are converted to, where these are others."""

    @property
    def nodes(self) -> int:
        return sum(self.kinds.values())


class ModelFormat(Protocol):
    """One way in. Its methods raise `ModelError` for a file that cannot be read."""

    def graph(self, path: Path, bind: Binding) -> OpGraph:
        """The operator graph, with sizes for its open dimensions."""
        ...

    def facts(self, path: Path) -> FileFacts: ...

    def ranges(self, path: Path, bound: Collection[str]) -> Mapping[str, str]:
        """Sizes of open dimensions that the file itself says, as `--bind` takes them; of those
        that are not bound.
        """
        ...

    def numbers(
        self, path: Path, names: Iterable[str], bind: Mapping[str, int]
    ) -> dict[str, Array]:
        """Arrays that the file holds, of those tensors."""
        ...


def model_format(path: Path) -> ModelFormat:
    """The way in for a file, by its name; what has no file may be the name of a published model.

    Raises:
        ModelError: there is neither a file nor a published model of this name.
    """
    lower = path.name.lower()
    known = next((each for suffix, each in _BY_SUFFIX if lower.endswith(suffix)), None)
    if is_there(path):
        is_graph = lower.endswith(".json") and is_fx_graph(path)
        return _TORCH if is_graph else known or _ONNX
    if known is not None or path.name != str(path):
        return _ABSENT
    from importers.sizes import check_published  # noqa: PLC0415  brings in yaml

    check_published(str(path))
    return PUBLISHED


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
    if form not in {_ONNX, _TORCH, _MINDIR}:
        return None
    names = Counter(dim.name for dim in form.facts(path).open_dims if dim.axis == 0)
    return names.most_common(1)[0][0] if names else None


class _Onnx:
    """`.onnx` and `.onnx.gz`, and whatever has no other suffix that is known."""

    def graph(self, path: Path, bind: Binding) -> OpGraph:
        from importers.onnx import import_onnx  # noqa: PLC0415  brings in onnx

        return import_onnx(path, bind)

    def facts(self, path: Path) -> FileFacts:
        from importers.onnx_coverage import kinds_in  # noqa: PLC0415
        from importers.onnx_file import read_model  # noqa: PLC0415

        model = read_model(path)
        return FileFacts(
            producer=f"{model.producer_name} {model.producer_version}".strip(),
            opsets={entry.domain or "ai.onnx": entry.version for entry in model.opset_import},
            kinds=kinds_in(model),
            open_dims=tuple(_open_dims(model)),
        )

    def ranges(self, path: Path, bound: Collection[str]) -> Mapping[str, str]:
        from importers.onnx_file import told_ranges  # noqa: PLC0415

        return {name: text for name, text in told_ranges(path).items() if name not in bound}

    def numbers(
        self, path: Path, names: Iterable[str], bind: Mapping[str, int]
    ) -> dict[str, Array]:
        from importers.onnx_constants import constant_values  # noqa: PLC0415

        return constant_values(path, names, bind)


def _open_dims(model: onnx.ModelProto) -> Iterable[OpenDim]:
    stored = {t.name for t in model.graph.initializer}
    for value in model.graph.input:
        if value.name in stored:
            continue
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value"):
                yield OpenDim(value.name, axis, dim.dim_param)


class _Torch:
    """A PyTorch program: a `.pt2` archive, or an FX graph as JSON."""

    def graph(self, path: Path, bind: Binding) -> OpGraph:
        from importers.torch_export import import_torch  # noqa: PLC0415  brings in onnx

        return import_torch(path, bind)

    def facts(self, path: Path) -> FileFacts:
        from importers.torch_export.facts import program_facts  # noqa: PLC0415

        found = program_facts(path)
        dims = tuple(OpenDim(*each) for each in found.open_dims)
        return FileFacts(found.producer, {}, found.kinds, dims, found.becomes)

    def ranges(self, path: Path, bound: Collection[str]) -> Mapping[str, str]:
        from importers.torch_export.facts import program_ranges  # noqa: PLC0415

        return program_ranges(path, bound)

    def numbers(
        self, path: Path, names: Iterable[str], bind: Mapping[str, int]
    ) -> dict[str, Array]:
        from importers.torch_export import constant_values  # noqa: PLC0415

        return constant_values(path, names, bind)


class _MindIR:
    """A `.mindir` file of MindSpore."""

    def graph(self, path: Path, bind: Binding) -> OpGraph:
        from importers.mindir.reading import import_mindir  # noqa: PLC0415  brings in onnx

        return import_mindir(path, bind)

    def facts(self, path: Path) -> FileFacts:
        from importers.mindir.reading import mindir_facts  # noqa: PLC0415

        found = mindir_facts(path)
        dims = tuple(OpenDim(*each) for each in found.open_dims)
        return FileFacts(found.producer, {}, found.kinds, dims, found.becomes)

    def ranges(self, path: Path, bound: Collection[str]) -> Mapping[str, str]:
        from importers.mindir.reading import told_ranges  # noqa: PLC0415

        return {name: text for name, text in told_ranges(path).items() if name not in bound}

    def numbers(
        self, path: Path, names: Iterable[str], bind: Mapping[str, int]
    ) -> dict[str, Array]:
        from importers.mindir.reading import constant_values  # noqa: PLC0415

        return constant_values(path, names, bind)


class _StableHlo:
    """A JAX program: StableHLO or a jaxpr as text."""

    def graph(self, path: Path, bind: Binding) -> OpGraph:
        from importers.stablehlo import import_stablehlo  # noqa: PLC0415  brings in onnx

        return import_stablehlo(path, bind)

    def facts(self, path: Path) -> FileFacts:
        from importers.stablehlo.reading import program_facts  # noqa: PLC0415

        found = program_facts(path)
        return FileFacts(found.producer, {}, found.kinds, (), found.becomes)

    def ranges(self, path: Path, bound: Collection[str]) -> Mapping[str, str]:
        del path, bound
        return {}

    def numbers(
        self, path: Path, names: Iterable[str], bind: Mapping[str, int]
    ) -> dict[str, Array]:
        """Those of constants: the text has no weights."""
        from importers.stablehlo import constant_values  # noqa: PLC0415

        return constant_values(path, names, bind)


class _Config:
    """A Hugging Face config.json."""

    def graph(self, path: Path, bind: Binding) -> OpGraph:
        from importers.hf_config import import_hf_config  # noqa: PLC0415

        return import_hf_config(path, bind)

    def facts(self, path: Path) -> FileFacts:
        from importers.hf_config import read_config  # noqa: PLC0415

        classes = read_config(path).get("architectures")
        first = classes[0] if isinstance(classes, list) and classes else ""
        return _facts_of_sizes(self.graph(path, {}), f"sizes of {first or 'a transformer'}")

    def ranges(self, path: Path, bound: Collection[str]) -> Mapping[str, str]:
        del path, bound
        return {}

    def numbers(
        self, path: Path, names: Iterable[str], bind: Mapping[str, int]
    ) -> dict[str, Array]:
        """Those of constants: sizes have no weights."""
        from importers.hf_config import constant_values, read_config  # noqa: PLC0415

        return constant_values(read_config(path), str(path), names, bind)


class _Published:
    """The name of a published model, whose sizes are bundled."""

    def graph(self, path: Path, bind: Binding) -> OpGraph:
        from importers.sizes import import_published  # noqa: PLC0415

        return import_published(str(path), bind)

    def facts(self, path: Path) -> FileFacts:
        return _facts_of_sizes(self.graph(path, {}), "published sizes")

    def ranges(self, path: Path, bound: Collection[str]) -> Mapping[str, str]:
        del path, bound
        return {}

    def numbers(
        self, path: Path, names: Iterable[str], bind: Mapping[str, int]
    ) -> dict[str, Array]:
        """Those of constants."""
        from importers.hf_config import constant_values  # noqa: PLC0415
        from importers.sizes import published  # noqa: PLC0415

        return constant_values(published(str(path)).config, str(path), names, bind)


class _Absent:
    """A file that there is not, found out when it is read: other faults of a request come first."""

    def graph(self, path: Path, bind: Binding) -> OpGraph:
        del bind
        raise self._refusal(path)

    def facts(self, path: Path) -> FileFacts:
        raise self._refusal(path)

    def ranges(self, path: Path, bound: Collection[str]) -> Mapping[str, str]:
        del bound
        raise self._refusal(path)

    def numbers(
        self, path: Path, names: Iterable[str], bind: Mapping[str, int]
    ) -> dict[str, Array]:
        del names, bind
        raise self._refusal(path)

    def _refusal(self, path: Path) -> ModelError:
        from importers.sizes import no_model  # noqa: PLC0415  brings in yaml

        return no_model(str(path), is_file=True)


def _facts_of_sizes(graph: OpGraph, producer: str) -> FileFacts:
    from importers.hf_config import open_dimensions  # noqa: PLC0415

    kinds: Counter[str] = Counter(op.kind for op in graph.ops)
    dims = tuple(OpenDim(*each) for each in open_dimensions(graph))
    return FileFacts(producer, {}, kinds, dims)


_ONNX, _CONFIG, _TORCH = _Onnx(), _Config(), _Torch()
_MINDIR, _STABLEHLO = _MindIR(), _StableHlo()
_ABSENT = _Absent()
PUBLISHED: ModelFormat = _Published()
_BY_SUFFIX: tuple[tuple[str, ModelFormat], ...] = (
    (".onnx", _ONNX), (".onnx.gz", _ONNX), (".pt2", _TORCH), (".fx.json", _TORCH),
    (".mindir", _MINDIR), (".mlir", _STABLEHLO), (".stablehlo", _STABLEHLO), (".jaxpr", _STABLEHLO),
    (".json", _CONFIG),
)  # fmt: skip
"""By the end of the file's name; the first that fits counts. A file of another name is ONNX."""

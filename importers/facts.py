"""What a model file says of itself, for `planner inspect`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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
    kinds: Mapping[str, int]
    """Nodes by kind, as the file names them, or the graph what no table has."""
    open_dims: tuple[OpenDim, ...] = ()
    becomes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Kinds of ONNX that kinds of the file are converted to, where these are others."""
    opsets: Mapping[str, int] = field(default_factory=dict)
    """Version of every operator set by domain, e.g. `{"ai.onnx": 20}`; none but for ONNX."""

    @property
    def nodes(self) -> int:
        return sum(self.kinds.values())

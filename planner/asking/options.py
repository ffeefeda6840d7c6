"""The options of a search, in the forms that they have on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from planner.asking.sources import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """What may be asked of a search beside the model; `planner search --help` explains each."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}
    """A name that is no option is an error where a service reads them."""

    devices: int | None = None
    cluster: str = "atlas-800t-a2"
    """A bundled name, or a name that the caller looks up."""
    product: str | None = None
    bind: tuple[str, ...] = ()
    batch: int | None = None
    global_batch: int | None = None
    micro_batch: str = "auto"
    pipeline: str = "auto"
    recompute: str = "auto"
    zero: str = "auto"
    sequence_parallel: str = "auto"
    context_parallel: str = "auto"
    ring_attention: str = "off"
    interleave: str = "auto"
    offload: str = "off"
    stage_meshes: str = "equal"
    fully_use_devices: bool = False
    cut_positions: bool = False
    search_mode: str | None = None
    """MindSpore's name of a solver; this and the next are other names of options above and below.
    """
    pipeline_stages: int | None = None
    gradient_accumulation: int | None = None
    enable_parallel_optimizer: bool = False
    run_phase: int | None = None
    level: int | None = None
    sequence: int | None = None
    phase: str = "train"
    optimizer: str = "adamw"
    dtype: str | None = None
    memory: str | None = None
    dataset_strategy: str | None = None
    target: str = "mindspore"
    solver: str = "portfolio"
    time_limit: float = 30.0
    effort: int = 1
    attention: str = "fused"
    all_to_all: bool = True
    rule: tuple[str, ...] = ()
    rules: Document | None = None
    """A file of rules, one on each line."""
    pin: tuple[str, ...] = ()
    rest: str = "auto"
    """What becomes of operators without a pin."""
    shard: Document | None = None
    """Calls of MindSpore's `shard`, YAML or JSON."""
    keep_close_to: Document | None = None
    """An older plan.json."""
    max_changes: int | None = None
    """Operators that may be split otherwise than there."""
    cost: str = "time"

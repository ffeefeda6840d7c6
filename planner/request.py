"""What is asked of a search."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from time import monotonic
from types import UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

from costmodel.memory import Optimizer
from costmodel.software import GENERIC, SoftwareProfile, software_profile
from ir.dialects import USUAL_TARGET
from ir.symbols import Symbol, parse_symbol
from report.refusal import InfeasibleError
from topology.cluster import Chip

__all__ = ["LEAST_S", "NEEDED", "Cuts", "Deadline", "InfeasibleError", "RequestError"]
__all__ += ["SearchRequest", "now_s", "recorded_request"]

Cuts: TypeAlias = tuple[tuple[int, ...], ...]
"""In how many parts each dimension of each input is cut: MindSpore's `in_strategy`."""


class RequestError(ValueError):
    """A request that contradicts itself, the model or the machine; the message has what, where
    and how to mend it.
    """


NEEDED = "needed"
"""Pipeline stages where nothing fits without them."""
PROMISING = "promising"
"""The same, and where a bound promises that they are faster than the plan without."""


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """Everything that decides a plan beside the model and the machine."""

    training: bool = True
    optimizer: Optimizer = Optimizer.ADAMW
    dtype: str | None = None
    """Main element type; None keeps the model's."""
    batch: int | None = None
    """Samples of one step, which is cut only where it does not fit as one; None keeps the
    model's."""
    global_batch: int | None = None
    """The same of a step that is cut into micro-batches and stages where that is faster; in place
    of `batch`."""
    micro_batch: str = "auto"
    """Samples of a micro-batch over all devices of a stage, or `auto`."""
    pipeline: str = "auto"
    """Number of stages, `off` for one, or `auto`; with `batch` stages are tried where nothing fits
    without them if it is `needed` or `promising`, and with the latter where they promise more."""
    recompute: str = "auto"
    """What the backward pass may compute again: `none`, single operators (`selective`), every block
    as a whole (`full`), or what is best for each block (`auto`); only of a step that is cut."""
    zero: str = "auto"
    """Stage of ZeRO, 0 to 3, of every parameter that has copies, or `auto` for the best of each;
    only of a step that is cut."""
    sequence_parallel: str = "auto"
    """Whether activations are cut along their tokens: `on` wherever work would be repeated
    otherwise, `off` nowhere, or `auto`."""
    context_parallel: str = "auto"
    """In how many parts attention cuts the tokens of its queries, `off` for one, or `auto`."""
    ring_attention: str = "off"
    """Whether keys and values may go round beside the computation of attention, where that is
    faster than to gather them (`auto`); only of a step that is cut."""
    interleave: str = "auto"
    """Chunks of the network on every device of a pipeline, interleaved, or `auto`; only of a step
    that is cut."""
    offload: str = "off"
    """Whether optimizer state rests in the memory of the host: of no parameter (`off`), of all
    (`on`), or where that is best (`auto`); only of a step that is cut."""
    stage_meshes: str = "equal"
    """Devices of the stages: as many for each (`equal`), or `any`; only of a step that is cut."""
    fully_use_devices: bool = False
    """An operator is cut over all devices of its mesh or not at all."""
    memory_limit_bytes: float | None = None
    """Per device; None takes the chip's memory less the cluster's reserve."""
    dataset_strategy: str | tuple[tuple[int, ...], ...] | None = None
    """`data_parallel`, `full_batch`, or cut counts per input; None: data_parallel in training,
    else full_batch.
    """
    target: str = USUAL_TARGET
    solver: str = "portfolio"
    effort: int = 1
    time_limit_s: float | None = 30.0
    """Emergency brake; the effort decides how much is tried."""
    fused_attention: bool = True
    all_to_all: bool = True
    """MindSpore may exchange slices, as it does under AutoParallel; no choice for other targets."""
    cut_positions: bool = False
    """Positions of images may be cut wherever windows read them; a pin or a dataset strategy that
    cuts them allows it too."""
    seed: int = 0
    threads: int = 2
    bind: tuple[tuple[str, int | Symbol], ...] = field(default=())
    """What dynamic dimensions were bound to, for the record."""
    rules: tuple[tuple[str, str], ...] = field(default=())
    """Kinds of operators that the catalogue lacks, each with its sharding rule."""
    rest: str = "auto"
    """What becomes of operators without a pin: `auto` searches them, `semi-auto` splits them by
    batch as MindSpore's semi-automatic mode does."""
    profile: str = "generic"
    """The software that runs the plan, whose constants the step has (`costmodel.software`)."""
    calibration: tuple[tuple[str, float], ...] = field(default=())
    """What a user's own measurements say of that software (`SoftwareProfile.scaled`), and of the
    rates of `link` and `port`, which the machine has already."""
    overlap: str = "auto"
    """Whether the step counts communication that travels beside computation as hidden (`auto`), or
    everything in turn (`none`)."""
    cost: str = "time"
    """What is minimised: `time`, or that of the framework's own searches."""
    pins: tuple[tuple[str, Cuts], ...] = field(default=())
    """Names of operators, wildcards allowed, each with the cuts that they are held to."""

    stage_starts: tuple[str, ...] = field(default=())
    """Parts of the model, such as `layers.16`, with which all stages but the first begin; only with
    a global batch and as many stages."""
    degrees: tuple[tuple[str, int], ...] = field(default=())
    """Degrees of parallelism that hold for the whole model, such as `("tp", 8)`
    (`planner.constraints.degrees`)."""
    scoped_degrees: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = field(default=())
    """The same for parts of the model, such as `("layers.3", (("tp", 8),))`."""
    rests: tuple[tuple[str, tuple[int, ...]], ...] = field(default=())
    """Parameters with the cuts of their dims at rest."""
    soft_pins: tuple[tuple[str, Cuts, float], ...] = field(default=())
    """Like `pins`, each with the seconds of a step that it may cost to keep it."""
    close_to: tuple[tuple[str, Cuts], ...] = field(default=())
    """How an older plan splits its operators (`planner.candidates.operators`)."""
    close_mesh: tuple[tuple[str, int, int], ...] = field(default=())
    """Its mesh: name, size and tier of every axis. It is kept where the machine still has it."""
    close_parts: tuple[tuple[str, int], ...] = field(default=())
    """Operators that another part of its machine had than the first one, with the part; only of a
    step that is cut."""
    max_changes: int | None = None
    """Operators that may be split otherwise than there; None for any number."""

    def software_on(self, chip: Chip) -> SoftwareProfile:
        """Constants of the software on a chip; those of inference are the neutral ones.

        Raises:
            RequestError: there is no such software.
        """
        if not self.training:
            return GENERIC
        try:
            return software_profile(self.profile, self.target, chip, dict(self.calibration))
        except ValueError as error:
            raise RequestError(str(error)) from error

    @property
    def leaves_all(self) -> bool:
        """Whether nobody chose how to search, or what for: then a batch may be cut for speed."""
        usual = SearchRequest()
        is_usual = (self.solver, self.cost) == (usual.solver, usual.cost)
        return is_usual and not self.soft_pins and self.max_changes is None

    @property
    def is_open(self) -> bool:
        """Whether recomputation, optimizer sharding and interleaving are left to the search."""
        decisions = (self.recompute, self.zero, self.sequence_parallel, self.interleave)
        return all(each == "auto" for each in decisions) and self.offload != "on"

    def to_dict(self) -> dict[str, object]:
        """Record for plan.json: what decides the answer, so neither threads nor the time limit.

        It holds lists, as JSON does, so that a plan equals what is read back from its file. A field
        that not every request is told of is left out where it is as usual.
        """
        cut = self.global_batch is not None
        told = _ALWAYS_TOLD | _TOLD_OF_CUTS if cut else _ALWAYS_TOLD
        left_out = _NEVER_TOLD if cut else _NEVER_TOLD | _TOLD_OF_CUTS - {"zero"}
        values = {each.name: (getattr(self, each.name), each.default) for each in fields(self)}
        return {
            name: _plain(value)
            for name, (value, usual) in values.items()
            if name not in left_out and (name in told or value not in {usual, ()})
        }


_NEVER_TOLD = {"threads", "time_limit_s"}
_TOLD_OF_CUTS = {"global_batch", "micro_batch", "pipeline", "recompute", "zero", "interleave"}
_ALWAYS_TOLD = {
    "training", "optimizer", "dtype", "batch", "memory_limit_bytes", "dataset_strategy", "target",
    "solver", "effort", "fused_attention", "all_to_all", "seed", "bind", "rules", "overlap",
}  # fmt: skip


def _plain(value: object) -> object:
    """A value of a request as JSON has it."""
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Optimizer):
        return value.value
    return str(value) if isinstance(value, Symbol) else value


def recorded_request(record: Mapping[str, object]) -> SearchRequest:
    """The request that `SearchRequest.to_dict` recorded; what is not told there is as usual.

    Raises:
        RequestError: a field has a value of another form.
    """
    hints = get_type_hints(SearchRequest)
    told = {name: _read(hints[name], record[name], name) for name in hints if name in record}
    return SearchRequest(**told)


def _read(form: Any, value: object, name: str) -> Any:
    """The value of a form that `_plain` made `value` of."""
    for each in get_args(form) if get_origin(form) in {Union, UnionType} else (form,):
        inner = get_args(each)
        if inner and isinstance(value, list | tuple):
            kinds = inner if Ellipsis not in inner else inner[:1] * len(value)
            if len(kinds) == len(value):
                pairs = zip(kinds, value, strict=True)
                return tuple(_read(kind, item, name) for kind, item in pairs)
        elif each is type(value) or (each is float and type(value) is int):
            return value
        elif each in {Symbol, Optimizer} and isinstance(value, str):
            try:
                return parse_symbol(value) if each is Symbol else Optimizer(value)
            except ValueError as error:
                raise _misread(str(error), name) from error
    raise _misread(f"{str(value)[:80]!r} is of another form", name)


def _misread(what: str, name: str) -> RequestError:
    return RequestError(f"{what}\n  at:  request.{name} of the plan\n  fix: search again")


LEAST_S = 0.1
"""Seconds that a solver is given at least: an answer of some kind takes as long."""


def now_s() -> float:
    """Seconds on a clock that only goes on."""
    return monotonic()


@dataclass(frozen=True, slots=True)
class Deadline:
    """When to stop; work that is told `left_s` as its time limit stops at the same moment."""

    at_s: float
    """By `now_s`; infinite for none."""

    @classmethod
    def after(cls, limit_s: float | None) -> Deadline:
        """So many seconds from now; None for never."""
        return cls(math.inf if limit_s is None else now_s() + limit_s)

    @property
    def left_s(self) -> float | None:
        """Seconds until then, at least 0; None where there is no end."""
        return None if math.isinf(self.at_s) else max(self.at_s - now_s(), 0.0)

    @property
    def is_over(self) -> bool:
        return now_s() >= self.at_s

    @property
    def solver_s(self) -> float | None:
        """The same for a solver, which must answer."""
        return None if math.isinf(self.at_s) else max(self.at_s - now_s(), LEAST_S)

"""The words that a plan is told in; their values are what stands in its file."""

from __future__ import annotations

from enum import StrEnum


class Cause(StrEnum):
    """What the seconds of a step are spent for."""

    COMPUTE_FORWARD = "compute forward"
    COMPUTE_BACKWARD = "compute backward"
    RECOMPUTE = "recompute"
    """To compute again for the backward pass what was not kept."""
    UPDATE = "optimizer update"
    HOST = "optimizer state from and to the host"
    """Copies of optimizer state that rests in the memory of the host."""
    OTHER_STAGES = "pipeline bubble"
    """In which the slowest stage of a pipeline waits."""

    FORWARD = "forward"
    """Communication that brings an activation into the layout of its reader."""
    ACTIVATION_GRADIENT = "activation gradient"
    """The same of its gradient on the way back."""
    PARAMETER_GATHER = "parameter gather"
    """From the layout of a parameter at rest to that of its reader."""
    GRADIENT_SYNC = "gradient sync"
    """Reductions of parameters' gradients."""
    INSIDE = "inside operators"
    """Communication of operators that reduce or exchange what they work on."""
    UPDATED_PARAMETERS = "updated parameters"
    """Communication that brings the parts of a parameter together once in a step, after each
    device has updated its own (ZeRO 1 and 2)."""
    BETWEEN_STAGES = "between stages"

    @classmethod
    def _missing_(cls, value: object) -> Cause | None:
        """Of files that were written with the former word."""
        return cls.OTHER_STAGES if value == "other stages at work" else None


class MemoryCause(StrEnum):
    """What the bytes of a device hold."""

    WEIGHTS = "weights"
    GRADIENTS = "gradients"
    OPTIMIZER_STATE = "optimizer state"
    ACTIVATIONS = "activations"
    """Kept for the backward pass."""
    REMADE = "recomputed activations"
    INPUTS = "inputs"
    TEMPORARIES = "temporaries"
    GATHERED_COPIES = "gathered copies"
    COMMUNICATION_BUFFERS = "communication buffers"

    @classmethod
    def _missing_(cls, value: object) -> MemoryCause | None:
        """Of files that were written with the former word."""
        return cls.REMADE if value == "activations made again" else None


class Schedule(StrEnum):
    """Orders of the passes of micro-batches that plans are made with; files may name others."""

    SINGLE = "-"
    """One batch, forward and backward; a file has no pipeline then."""
    ONE_FORWARD_ONE_BACKWARD = "1f1b"
    INTERLEAVED = "interleaved"
    """The same with chunks that take turns."""

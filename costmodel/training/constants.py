"""The constants of the estimate: what a chip and a software stack reach of the physical limits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from costmodel.memory import Precision

__all__ = ["RATES", "StepConstants"]


@dataclass(frozen=True, slots=True)
class StepConstants:
    """One set per software profile and generation of chips. All times are for one device."""

    matmul: float = 0.85
    """Rate of large products over the peak."""

    matmul8: float = 0.75
    """The same for 8-bit operands, over their own peak."""

    matmul4: float = 0.55
    """The same for 4-bit operands."""

    mx: float = 1.0
    """Rate with operands scaled block by block over that with one scale per tensor."""

    grouped: float = 0.6
    """Rate of the products of routed experts over that of other products."""

    expert_bytes: float = 0.0
    """What a routed copy costs beside its products and its way, as bytes moved per 16-bit element
    that its products take in, its hidden state and the activation's result: order, padding, casts,
    scaling, rows that fill no tile."""

    expert_host_s: float = 0.0
    """Time in which the host issues the products of one routed expert for one pass, where each is
    issued by itself."""

    memory: float = 0.8
    """Bandwidth that element-wise kernels reach over the peak."""

    attention: float = 0.45
    """Rate of fused attention over the 16-bit peak, for heads of 128."""

    small_heads: float = 0.3
    """How the rate of fused attention falls with heads below 128: their width to this power."""

    host_s: float = 3e-4
    """Time in which the host issues one pass through one layer."""

    graphed: float = 0.3
    """Share of the host's time that is left where captured graphs are replayed."""

    host_micro_s: float = 1e-3
    """The same for what a micro-batch needs outside the layers."""

    link: float = 1.0
    """Rate of links inside a server over that of measured collectives. Of the package 1; a user's
    own runs may say otherwise."""

    port: float = 1.0
    """The same of ports between servers."""

    start_s: float = 2e-5
    """What a tensor parallel collective costs beside moving its bytes, for each doubling of its
    ranks: launch, waiting for the last of them and the lower rate of short messages."""

    tp_hidden: float = 0.0
    """Share of tensor parallel communication that runs beside computation."""

    fused_hidden: float = 0.3
    """The same where the run fuses products with their collectives."""

    dp_hidden: float = 0.0
    """Share of gradient and parameter communication that runs beside computation."""

    fetch_shown: float = 0.1
    """Share of the gathering of sharded parameters that slows computation even where it fits
    beside it: both use the same memory and cores."""

    pp_shown: float = 0.2
    """Share of the transfers between stages that is not hidden."""

    ep_hidden: float = 0.0
    """Share of the exchange between experts that runs beside computation, where a recipe has it."""

    cp_hidden: float = 0.7
    """Share of the exchange of keys and values that runs beside computation."""

    swap: float = 0.75
    """Rate at which states that are kept on the host come and go over what copies by the chip's
    link usually reach, 0.8 of its nominal rate; HCCL reckons with 0.6 of that."""

    logit_bytes: float = 30.0
    """Bytes moved per logit in the loss, forward and backward."""

    host_tp_s: float = 0.0
    """Time in which the host issues the tensor parallel collectives of one pass of a layer."""

    old_release: float = 1.0
    """What the element-wise kernels of a layer move with releases before the profile's current one,
    over what they move with it: later ones fuse more of them."""

    step_s: float = 0.0
    """What a step takes beside all this: data, logging, clipping."""

    bubble: float = 1.0
    """Idle time of the pipeline over the closed form."""

    sent_bytes: float = 3.0
    """Bytes of a parameter as replicas exchange it once in a step, in the mean of its gradient and
    its new value: gradients of 32 bits, parameters of 16."""

    update_bytes: float = 4.0
    """Of a gradient as the update reads it; 0 for as wide as it is kept. Source: Megatron-LM,
    `MixedPrecisionOptimizer.step`: gradients are copied to 32 bits, `clip_grad_norm`, and the
    update."""

    clips: float = 1.0
    """1 where a pass reads all gradients for their norm before the update."""

    @property
    def updated(self) -> Precision:
        """How the update reads gradients."""
        return Precision(update_gradient_bytes=self.update_bytes or None, norm=self.clips > 0)

    def slowed(self, factor: float) -> Self:
        """The same machine and software at so many times the time: rates fall, times rise.

        Latencies of links and starts of kernels, which are the machine's, stay.
        """
        rates = {name: getattr(self, name) / factor for name in RATES}
        times = {name: getattr(self, name) * factor for name in _TIMES}
        return replace(self, **rates, **times)

    def in_turn(self) -> Self:
        """The same where nothing runs beside anything else: all that is sent is waited for, once.

        What gathers slow beside them is nothing then, and a pipeline idles as its closed form says.
        """
        return replace(self, **dict.fromkeys(_BESIDE, 0.0), pp_shown=1.0, bubble=1.0)


RATES = ("matmul", "matmul8", "matmul4", "memory", "attention", "link", "port", "swap")
"""Shares of what the machine could do, above 0."""
_TIMES = ("host_s", "host_tp_s", "host_micro_s", "expert_host_s", "start_s", "step_s")
_BESIDE = ("tp_hidden", "fused_hidden", "dp_hidden", "ep_hidden", "cp_hidden", "fetch_shown")

"""Devices of this machine, as JAX has them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import jax

from ir.semantics.call import NotRunError

LEAST_DEVICES = 16
"""Forced devices of a process; they cannot be added to later."""


def devices(count: int) -> list[Any]:
    """Real accelerators if there are as many, else forced devices of this machine.

    Raises:
        NotRunError: JAX was started with fewer.
    """
    with suppress(RuntimeError):  # where JAX has started, what it has must do
        jax.config.update("jax_num_cpu_devices", max(count, LEAST_DEVICES))
    found = jax.devices()
    if len(found) < count:
        found = jax.devices("cpu")
    if len(found) < count:
        raise NotRunError(
            f"JAX was started with {len(found)} devices, the plan has {count}: judge larger plans "
            "first, or in a process of their own"
        )
    return list(found[:count])


def device_bytes(compiled: Any) -> float | None:
    """What a compiled program holds on each device; None where XLA does not say it."""
    found = compiled.memory_analysis()
    if found is None:
        return None
    return float(
        found.argument_size_in_bytes
        + found.output_size_in_bytes
        + found.temp_size_in_bytes
        - found.alias_size_in_bytes
    )

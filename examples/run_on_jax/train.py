"""Train a perceptron as planned. Every process of the job runs this; it needs JAX alone.

python train.py FOLDER          where FOLDER holds jax_sharding.py
"""
# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202, INP001, PLC0415, T201

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

RATE = 1e-3


def load(path):
    """The exported module."""
    spec = importlib.util.spec_from_file_location("jax_sharding", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def perceptron(parameters, x, plan, mesh):
    """The model: every parameter is used and every result left as the plan says."""
    import jax

    x = plan.constrain("x", x, mesh)
    hidden = plan.constrain("hidden", x @ plan.use("up", parameters["up"], mesh), mesh)
    active = plan.constrain("active", jax.nn.relu(hidden), mesh)
    return plan.constrain("y", active @ plan.use("down", parameters["down"], mesh), mesh)


def main():
    """Three steps; the loss is that of a single device."""
    import jax
    import jax.numpy as jnp

    plan = load(Path(sys.argv[1], "jax_sharding.py"))
    mesh = plan.mesh()
    keys = jax.random.split(jax.random.key(0), 3)
    whole = {
        "up": jax.random.normal(keys[0], (512, 2048)) / 32,
        "down": jax.random.normal(keys[1], (2048, 512)) / 32,
    }
    x = jax.random.normal(keys[2], (256, 512))

    parameters = plan.place(whole, mesh)
    inputs = jax.device_put(x, plan.shardings(plan.INPUTS, mesh)["x"])
    stored = plan.shardings(plan.PARAMETERS, mesh)

    @jax.jit
    def step(parameters, x):
        def loss(p):
            return jnp.mean(perceptron(p, x, plan, mesh) ** 2)

        value, gradients = jax.value_and_grad(loss)(parameters)
        updated = {n: p - RATE * gradients[n] for n, p in parameters.items()}
        return value, jax.lax.with_sharding_constraint(updated, stored)

    for name, value in parameters.items():
        print(f"{name} {value.shape}: shards of {value.addressable_shards[0].data.shape}")
    for _ in range(3):
        value, parameters = step(parameters, inputs)
        print(f"loss {float(value):.6f}")
    alone = jnp.mean((jax.nn.relu(x @ whole["up"]) @ whole["down"]) ** 2)
    print(f"first loss on one device {float(alone):.6f}")


if __name__ == "__main__":
    main()

"""Jaxprs as text, the form in which JAX prints a traced function, as modules of StableHLO."""

from importers.stablehlo.jaxpr.module import is_jaxpr, module_of

__all__ = ["is_jaxpr", "module_of"]

"""Every term of the step of one run, and how much of the step it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from costmodel.training.calibration import shipped_calibration
from costmodel.training.families import family_of
from costmodel.training.passes import layer_terms
from costmodel.training.predict import predict
from costmodel.training.step import step_times
from costmodel.training.table import RunTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from costmodel.training.calibration import Calibration
    from costmodel.training.passes import LayerTerms
    from costmodel.training.records import TrainingRun

__all__ = ["step_terms"]


def step_terms(run: TrainingRun, calibration: Calibration | None = None) -> Mapping[str, float]:
    """Seconds of the step of a run by term, in the order of the step; they add up to the step.

    Args:
        run: what is priced.
        calibration: constants to use; those that the package ships by default.
    """
    known = shipped_calibration() if calibration is None else calibration
    constants, table = known.constants[family_of(run)[0].name], RunTable.of([run])
    step, layer = step_times(table, constants), layer_terms(table, constants)
    passes = float(table.most_layers[0] * table.micro_batches[0])
    found = {name: passes * seconds for name, seconds in _of_layer(layer).items()}
    found["embedding, head and loss"] = float(step.steady[0]) - sum(found.values())
    found |= {
        "pipeline bubble": float(step.bubble[0]),
        "messages between stages, exposed": float(step.transfer[0]),
        "gradients and parameters, exposed": float(step.gradients[0]),
        "optimizer": float(step.optimizer[0]),
        "fixed": float(step.other[0]),
    }
    found["similar measured runs"] = predict([run], (), calibration)[0].step_s - sum(found.values())
    return {name: seconds for name, seconds in found.items() if abs(seconds) > 1e-12}


def _of_layer(layer: LayerTerms) -> dict[str, float]:
    """Seconds of one micro-batch in one layer by cause."""
    own = layer.own
    computed = float(own.forward[0] + own.backward[0])
    quiet = layer.alone()
    again = float(quiet.silent().passes.both[0]) - computed
    sent = float(quiet.passes.both[0]) - again - computed
    return {
        "products and element-wise kernels of layers": computed,
        "recomputation": again,
        "messages inside layers, exposed": sent,
        "waiting for the host and for sharded parameters": (
            float(layer.passes.both[0]) - again - computed - sent
        ),
    }

"""A profile of any known format."""

from __future__ import annotations

from pathlib import Path

from costmodel.link_calibration.measurements import CalibrationError
from costmodel.traces.chrome import read_chrome
from costmodel.traces.events import opened
from costmodel.traces.records import Trace
from costmodel.traces.tables import read_table

__all__ = ["read_trace"]

_LOOKED_AT = 4096


def read_trace(path: Path) -> Trace:
    """The kernels and messages of a profile.

    Chrome's JSON of torch.profiler or JAX, packed or not; CSV of msprof or Nsight Systems.

    Raises:
        CalibrationError: the file cannot be read, is none of these, was cut off or has no kernel.
    """
    try:
        with opened(path) as file:
            begin = file.read(_LOOKED_AT).lstrip("\ufeff \t\r\n")
        return read_chrome(path) if begin[:1] in {"{", "["} else read_table(path)
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CalibrationError(
            f"cannot read the trace: {reason}", path.name, "name a file of a profiler"
        ) from error

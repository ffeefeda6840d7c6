"""Errors that the user can mend: what, where and how. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """A fault in what the user asked, in three lines: what, `at:` where, `fix:` how to mend it."""

    def __init__(self, what: str, where: str = "", fix: str = "") -> None:
        lines = [what, *([f"  at:  {where}"] if where else []), *([f"  fix: {fix}"] if fix else [])]
        super().__init__("\n".join(lines))


def unknown_name(noun: str, name: str, known: Iterable[str], where: str) -> UserError:
    """The error for a name that is not one of the known ones, with the closest of them."""
    names = list(known)
    close = get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return UserError(f"unknown {noun} {name!r}", where, f"{hint}known: {', '.join(names)}")


def is_user_error(error: Exception) -> bool:
    """Whether the message is meant for the user, so that no traceback is due."""
    return type(error) is UserError or isinstance(error, user_errors())


def user_errors() -> tuple[type[Exception], ...]:
    """The classes of the core whose messages are meant for the user."""
    # The classes are named here and not at the top: they cost half a second to import.
    from costmodel.link_calibration.measurements import CalibrationError  # noqa: PLC0415
    from costmodel.simulation.result import SimulationError  # noqa: PLC0415
    from costmodel.training.dataset import TableError  # noqa: PLC0415
    from executors.checkpoint.errors import CheckpointError  # noqa: PLC0415
    from importers.errors import ModelError  # noqa: PLC0415
    from ir.batch import BatchError  # noqa: PLC0415
    from ir.plan_file import PlanFileError  # noqa: PLC0415
    from ir.symbols import SymbolError  # noqa: PLC0415
    from ir.violations import ViolationError  # noqa: PLC0415
    from planner.request import RequestError  # noqa: PLC0415
    from planner.requests.instances import InstanceError  # noqa: PLC0415
    from topology.errors import TopologyError  # noqa: PLC0415

    return (
        UserError,
        BatchError,
        CalibrationError,
        CheckpointError,
        InstanceError,
        ModelError,
        PlanFileError,
        RequestError,
        SimulationError,
        SymbolError,
        TableError,
        TopologyError,
        ViolationError,
    )

"""Which exceptions of the core are the user's to mend."""

from __future__ import annotations

from planner.asking.errors import UserError


def is_user_error(error: Exception) -> bool:
    """Whether the message is meant for the user, so that no traceback is due."""
    return type(error) is UserError or isinstance(error, user_errors())


def user_errors() -> tuple[type[Exception], ...]:
    """The classes of the core whose messages are meant for the user."""
    # The classes are named here and not at the top: they cost half a second to import.
    from costmodel.link_calibration.measurements import CalibrationError  # noqa: PLC0415
    from costmodel.training.dataset import TableError  # noqa: PLC0415
    from executors.checkpoint.errors import CheckpointError  # noqa: PLC0415
    from exporters.errors import ExportError  # noqa: PLC0415
    from exporters.mindspore_records import StrategyFileError  # noqa: PLC0415
    from importers.errors import ModelError  # noqa: PLC0415
    from ir.batch import BatchError  # noqa: PLC0415
    from ir.plan_file import PlanFileError  # noqa: PLC0415
    from ir.symbols import SymbolError  # noqa: PLC0415
    from planner.instances import InstanceError  # noqa: PLC0415
    from planner.request import RequestError  # noqa: PLC0415
    from topology.errors import TopologyError  # noqa: PLC0415

    return (
        UserError,
        BatchError,
        CalibrationError,
        CheckpointError,
        ExportError,
        InstanceError,
        ModelError,
        PlanFileError,
        RequestError,
        StrategyFileError,
        SymbolError,
        TableError,
        TopologyError,
    )

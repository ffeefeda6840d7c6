"""What `planner topology check` finds in a file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cli.errors import UserError
from cli.machine_files import machine_text
from planner.requests.machines import is_rank_table
from planner.requests.sources import Document
from topology.errors import ClusterError, Violation
from topology.loading import check_machine


@dataclass(frozen=True, slots=True)
class Verdict:
    """Findings in one file."""

    name: str
    kind: str
    errors: tuple[Violation, ...]
    warnings: tuple[Violation, ...]
    product: str | None = None
    inferred: str | None = None
    """What the product of a rank table was inferred from."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"status": "error" if self.errors else "ok"} | asdict(self)


def checked(path: Path, product: str | None) -> Verdict:
    """All findings in a cluster file or a rank table.

    Raises:
        UserError: the file cannot be read, or a product is given for a cluster file.
    """
    text = machine_text(path, str(path))
    if product is not None or is_rank_table(Document(path.name, text)):
        return _rank_table(path, text, product)
    return _cluster(path, text)


def _cluster(path: Path, text: str) -> Verdict:
    try:
        _, found = check_machine(text, str(path))
    except ClusterError as fault:
        found = [Violation("E_TEXT", fault.where, f"{fault.what} ({fault.fix})")]
    errors = tuple(each for each in found if each.code.startswith("E_"))
    warnings = tuple(each for each in found if each.code.startswith("W_"))
    return Verdict(path.name, "cluster file", errors, warnings)


def _rank_table(path: Path, text: str, product: str | None) -> Verdict:
    from topology.rank_tables import check_rank_table  # noqa: PLC0415

    if "schema_version" in text:
        raise UserError(
            f"{path.name} is a cluster file, which has no product",
            f"--product {product}",
            "leave --product out",
        )
    report = check_rank_table(text, product)
    return Verdict(
        name=path.name,
        kind="rank table",
        errors=report.errors,
        warnings=report.warnings,
        product=str(report.product),
        inferred=report.inferred,
    )

"""Whether HCCL and the machine will take a rank table, and if not, why."""

from collections.abc import Sequence
from dataclasses import dataclass

from topology.errors import Violation
from topology.rank_tables.card_answers import CardAnswer
from topology.rank_tables.findings import Findings
from topology.rank_tables.json_text import json_object
from topology.rank_tables.products import Product, inferred_product, product_named
from topology.rank_tables.reading import read_record
from topology.rank_tables.records import RankTable, Template
from topology.rank_tables.rules_addresses import check_addresses, check_backups
from topology.rank_tables.rules_answers import check_answers
from topology.rank_tables.rules_common import (
    check_devices,
    check_ports,
    check_ranks,
    check_servers,
)
from topology.rank_tables.rules_groups import check_clusters, check_pods
from topology.rank_tables.rules_products import check_first_generation, check_later_generations

__all__ = ["RankTableReport", "check_rank_table", "products_accepting"]


_MOST_TOLD = 5


@dataclass(frozen=True, slots=True)
class RankTableReport:
    """What a check found, and for which product it looked."""

    errors: tuple[Violation, ...]
    """Rules that reject the table."""

    warnings: tuple[Violation, ...]
    """Rules that do not."""

    product: Product
    """Whose rules were applied."""

    inferred: str | None
    """What the product was inferred from; None if it was given."""

    table: RankTable | None
    """The table as far as it can be read; None if it has no known form."""

    @property
    def valid(self) -> bool:
        """Whether no rule rejects the table."""
        return not self.errors

    def told(self) -> list[str]:
        """The first errors with their codes, and how many others there are."""
        lines = [f"{each.code} {each}" for each in self.errors[:_MOST_TOLD]]
        more = len(self.errors) - len(lines)
        return [*lines, f"and {more} more"] if more else lines

    @property
    def codes(self) -> tuple[str, ...]:
        """Codes of all errors and warnings, each once, sorted."""
        return tuple(sorted({each.code for each in (*self.errors, *self.warnings)}))


def check_rank_table(
    text: str, product: str | None = None, answers: Sequence[CardAnswer] = ()
) -> RankTableReport:
    """Check the text of a rank table of any version against every rule.

    Args:
        text: of the file; may be anything.
        product: `910A`, `910B`, `910C/A3` or `950`; None infers it from version, super pods and
            device ids.
        answers: what servers say of their cards.

    Raises:
        ClusterError: there is no such product.
    """
    given = None if product is None else product_named(product)
    findings = Findings()
    record = json_object(text, findings)
    table = None if record is None else read_record(record, findings)
    if table is None:
        return _report(
            findings, given or Product.A1, None if given else "nothing, it is the default", None
        )
    used, reason = (given, None) if given else inferred_product(table)
    apply_rules(table, used, findings)
    check_answers(table, answers, findings)
    return _report(findings, used, reason, table)


def products_accepting(text: str) -> tuple[Product, ...]:
    """The products of version 1 tables whose rules a table keeps."""
    products = (Product.A1, Product.A2, Product.A3)
    return tuple(product for product in products if check_rank_table(text, product).valid)


def apply_rules(table: RankTable, product: Product, findings: Findings) -> None:
    """Look for every rule of the product that a table breaks."""
    if table.template is not Template.V2_0:  # which has no server ids
        check_servers(table, findings)
    check_devices(table, product, findings)
    check_ranks(table, findings)
    check_addresses(table, findings)
    check_ports(table, findings)
    check_clusters(table, findings)
    check_pods(table, findings)
    if product is Product.A3:
        check_backups(table, findings)
    if table.template in {Template.V1_1, Template.V2_0}:
        return  # ranks on hosts, and servers of other wiring
    if product is Product.A1:
        check_first_generation(table, findings)
    else:
        check_later_generations(table, product, findings)


def _report(
    findings: Findings, product: Product, reason: str | None, table: RankTable | None
) -> RankTableReport:
    return RankTableReport(
        findings.of(errors=True), findings.of(errors=False), product, reason, table
    )

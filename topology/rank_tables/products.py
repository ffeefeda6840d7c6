"""Which product a table is for: the rules of placement and wiring depend on it."""

import re
from collections.abc import Mapping
from enum import StrEnum

from topology.errors import ClusterError
from topology.rank_tables.records import RankTable, Template

__all__ = ["Product", "inferred_product", "product_named", "product_of_chip"]


class Product(StrEnum):
    """Generations of Ascend training servers."""

    A1 = "910A"
    A2 = "910B"
    A3 = "910C/A3"
    A5 = "950"

    @property
    def largest_device_id(self) -> int:
        """Device ids of a server are 0 to this."""
        return {Product.A1: 7, Product.A5: 64}.get(self, 15)


_NAMES: Mapping[str, Product] = {
    "910a": Product.A1, "a1": Product.A1, "910b": Product.A2, "a2": Product.A2,
    "910c": Product.A3, "a3": Product.A3, "910c/a3": Product.A3, "950": Product.A5,
    "a5": Product.A5,
}  # fmt: skip

_CHIPS = (
    (re.compile(r"ascend_910(a|_?pro_?[ab]|_?premium_?a)$"), Product.A1),
    (re.compile(r"ascend_910b[1-4]"), Product.A2),
    (re.compile(r"ascend_910(c|_93)"), Product.A3),
    (re.compile(r"ascend_950"), Product.A5),
)


def product_named(name: str) -> Product:
    """The product of this name.

    Raises:
        ClusterError: there is none.
    """
    found = _NAMES.get(name.strip().lower())
    if found is None:
        raise ClusterError(
            f"unknown product {name!r}", "the product of a rank table", "use 910A, 910B or 910C/A3"
        )
    return found


def product_of_chip(chip: str) -> Product | None:
    """The product of a chip profile, None if it is no Ascend training chip.

    >>> product_of_chip("ascend_910b3"), product_of_chip("h100_sxm_80g")
    (<Product.A2: '910B'>, None)
    """
    return next((product for pattern, product in _CHIPS if pattern.match(chip)), None)


def inferred_product(table: RankTable) -> tuple[Product, str]:
    """The product that a table is for, and what says so: version, super pods, device ids."""
    ids = [device.device_id for _, device in table.placed() if device.device_id is not None]
    most = max(ids, default=0)
    if table.template is Template.V2_0:
        return Product.A5, "version 2.0"
    if table.template is Template.V1_2:
        return Product.A3, "version 1.2"
    if table.pods is not None or table.fields.get("heterog_sub_version") == "1.2":
        return Product.A3, "super pods"
    if any("super_device_id" in device.fields for _, device in table.placed()):
        return Product.A3, "super device ids"
    if table.template in {Template.LAB, Template.CLOUD}:
        return Product.A1, "no version"
    if most > Product.A1.largest_device_id:
        return Product.A2, f"version {table.template}, no super pods, device id {most}"
    return Product.A1, f"version {table.template}, no super pods, device ids up to {most}"

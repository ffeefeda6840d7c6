"""Rank tables: which card of which server is which rank. Read, checked, made and merged."""

from topology.rank_tables.checking import RankTableReport, check_rank_table
from topology.rank_tables.findings import CODES
from topology.rank_tables.json_text import LARGEST_TEXT
from topology.rank_tables.products import Product, product_named, product_of_chip
from topology.rank_tables.records import Device, RankTable, Server, ServerGroup, Template

__all__ = ["CODES", "LARGEST_TEXT", "Device", "Product", "RankTable"]
__all__ += ["RankTableReport", "Server", "ServerGroup", "Template", "check_rank_table"]
__all__ += ["product_named", "product_of_chip"]

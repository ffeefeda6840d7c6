"""Ways out: what a framework reads to apply a plan, and what a person reads to judge it.

The table of all formats is `exporters.formats.FORMATS`.
"""

"""MindSpore's search by halving, recursive programming, step by step as MindSpore takes them."""

from __future__ import annotations

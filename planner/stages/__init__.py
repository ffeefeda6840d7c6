"""Cutting a network into pipeline stages."""

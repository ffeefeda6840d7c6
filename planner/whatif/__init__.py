"""Sweeps over machines, sizes and batches, and what follows from them."""

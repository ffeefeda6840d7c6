"""Checkpoints that follow a plan: merged, split and moved to other ranks in bounded memory."""

"""The decisions: what is split where, and in which order it was decided."""

"""The real MindSpore as a judge of plans; `script` runs in its own environment."""

"""A training step, event by event: streams, overlap, shared links, pipeline schedules."""

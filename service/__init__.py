"""The planner as a service: an HTTP API, a store of jobs and their results, workers, a page."""

"""Pipeline schedules: the order of passes, what is in flight, and how long a step takes."""

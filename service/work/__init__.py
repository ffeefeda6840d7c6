"""Jobs being done: worker processes, and what each kind of job does."""

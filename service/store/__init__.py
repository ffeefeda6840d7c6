"""What the service keeps, in a database: uploads, results, jobs."""

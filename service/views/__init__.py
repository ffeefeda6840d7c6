"""What the page shows of a plan: views as plain JSON values, computed from the plan alone."""

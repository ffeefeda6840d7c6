"""Sources of the page and what builds it; the wheel has the built page in their place."""

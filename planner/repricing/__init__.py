"""Plans as they stand on another machine, at another size or in another software."""

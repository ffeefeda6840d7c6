"""A plan as torch DTensors: what `executors.torch` judges by."""

"""Lower bounds of steps: which configurations need not be solved."""

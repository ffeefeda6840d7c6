"""What a person reads of a plan, a simulation, a sweep: facts counted once, with their units."""

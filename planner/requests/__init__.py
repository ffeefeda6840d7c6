"""From options as text to a plan: what the command line and the service share."""

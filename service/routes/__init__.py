"""The paths of the service."""

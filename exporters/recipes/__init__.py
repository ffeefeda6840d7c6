"""Training recipes written for frameworks, and changed in the words of the user's own file."""

"""The options of the commands, each declared once. Imports nothing heavy."""

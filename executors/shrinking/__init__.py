"""How a plan is made small: sizes, attributes, layers."""

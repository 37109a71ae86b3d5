"""Tables and tests of what a results folder holds."""

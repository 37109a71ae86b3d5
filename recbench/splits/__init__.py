"""The rules that divide a dataset, one per module, found by name in the registry."""

"""Interactions, datasets, and how raw files become them."""

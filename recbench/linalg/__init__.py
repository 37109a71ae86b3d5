"""Arithmetic on large matrices; nothing in here knows what a recommender is."""

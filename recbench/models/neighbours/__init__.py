"""Neighbours: sparse weights between items, and between users."""

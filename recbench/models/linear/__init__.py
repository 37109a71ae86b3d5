"""Models that score by a matrix of items times items."""

"""Models that score by factors of users and items."""

"""Rankings, and what they are worth."""

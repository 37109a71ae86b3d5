"""Models that are trained by gradients: vectors of users and items, a loss on their scores."""

"""Models that PyTorch trains, an extra. Only `nets/` imports it, when a model is fitted."""

"""Which settings are tried: grids, draws, searches that learn."""

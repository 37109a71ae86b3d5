"""Models: hyper-parameters whose `fit` returns a Scorer."""

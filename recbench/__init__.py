"""recbench: a benchmark suite for implicit-feedback recommenders."""

__version__ = "0.1.0"

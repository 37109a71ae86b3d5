"""Results folders side by side as one page: all models on all datasets."""

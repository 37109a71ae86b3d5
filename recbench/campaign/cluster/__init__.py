"""Groups of trials on the workers of a Dask cluster."""

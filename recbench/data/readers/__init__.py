"""Raw files to Interactions: one module per family of formats, one `read` function in each."""

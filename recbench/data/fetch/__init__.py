"""Raw files: downloaded, verified, kept."""

"""A results folder as one HTML file, and its charts."""

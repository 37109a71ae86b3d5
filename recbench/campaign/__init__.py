"""Runs of many trials into one results folder."""

"""One inverse that many machines have together: each holds some of its tiles."""

"""A standing attack suite: whatever is done to recbench, it answers right or with a sentence."""

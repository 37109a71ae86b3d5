"""Numbers printed in papers, and ours beside them."""

"""How fast the chain is, side by side with others, in one run."""

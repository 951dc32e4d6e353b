"""Training loops and stopping rules."""

"""Networks: weights, and what they give for features."""

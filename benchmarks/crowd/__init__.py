"""How well models find the truth, and the spammers, in a generated crowd."""

"""The hidden Markov model beside skweak's, and from 100 thousand to 50 million tokens."""

"""Readable torch references of the compiled kernels: log space, plain operations, autograd."""

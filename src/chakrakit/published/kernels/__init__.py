"""Studies of single kernels, which give bounds: what bytes and operations leave of a claim."""

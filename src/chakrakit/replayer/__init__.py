"""A trace on real hardware: compiled into a plan that a small runner executes with PyTorch alone."""

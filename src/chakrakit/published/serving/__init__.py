"""Studies of how models are served."""

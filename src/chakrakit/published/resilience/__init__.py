"""Studies of failures, checkpoints and recovery."""

"""Studies of collectives, overlap and communication that is avoided."""

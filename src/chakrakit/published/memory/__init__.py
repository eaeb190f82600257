"""Studies of memory and storage."""

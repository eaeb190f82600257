"""Studies of tiers of memory: what is held where, and when it comes."""

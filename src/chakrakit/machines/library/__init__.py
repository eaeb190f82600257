"""A collective communication library: what it costs, what it chooses, and how its constants are fitted."""

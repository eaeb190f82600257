"""Studies of protocols among nodes that wait for each other."""

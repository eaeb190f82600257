"""Studies of learned policies at the edge: each against the best static choice and a greedy one."""

"""Studies of parallel plans, schedules and placement."""

"""Changes to communication: one file an action, on channels of calls that meet across ranks."""

"""Studies of programs that call models and tools."""

"""Studies of side costs: what is paid beside the idea itself."""

"""Executes plans with PyTorch and the standard library alone; copied as it is by `chakra replay --export`."""

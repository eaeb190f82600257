"""Runs and facts as something to look at. Nothing here computes what insight could."""

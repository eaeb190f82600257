"""What happened in a Run and why: facts as small typed results. Nothing here draws."""

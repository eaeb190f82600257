"""What may be shared of a trace, and nothing else."""

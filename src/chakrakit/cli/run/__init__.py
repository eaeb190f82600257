"""Commands that run traces on machines, simulated or real."""

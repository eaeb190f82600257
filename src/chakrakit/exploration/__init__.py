"""Many runs: sweeps over workloads, machines and passes, and the search for the best plan."""

"""Studies of methods: benchmarks, profiles, similarity, simulators."""

"""What several tests use: data, oracles, generators of random cases."""

"""More or fewer replicas of a model along one axis of the ranks."""

"""Validation: what is wrong with traces, and the repairs that cannot change what they mean."""

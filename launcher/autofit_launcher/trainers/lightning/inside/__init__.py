"""Hooks of the instrument for Lightning, in processes that import it."""

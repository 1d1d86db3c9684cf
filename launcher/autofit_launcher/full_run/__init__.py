"""Starts one attempt at the full run, watches it, explains its end and decides what to do next (``engine.attempts`` then does it)."""

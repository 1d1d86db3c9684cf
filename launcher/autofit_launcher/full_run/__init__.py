"""Starts one attempt at the full run, watches it, explains its end and decides what to do next (``engine.launch`` then does it)."""

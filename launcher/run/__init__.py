"""One attempt at the full run: started, watched, its end explained, and what to do next (``engine.attempts`` does it)."""

"""How a rung is found: searches side by side in real trials, and replayed."""

"""One full run: started, watched, its end explained, and what to do next."""

"""Goes into a run's folder and works there by itself; imports nothing of autofit."""

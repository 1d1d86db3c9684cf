"""Scripts that a run's folder gets a copy of: they need Ultralytics and torch, and import nothing of autofit."""

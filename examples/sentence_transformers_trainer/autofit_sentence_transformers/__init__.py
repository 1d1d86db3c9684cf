"""sentence-transformers' trainer for autofit."""

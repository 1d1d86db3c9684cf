"""The adapter for autofit's text and speech trainers, and readers of models, data and arguments. Nothing here imports transformers."""

"""Hooks of the instrument for Hugging Face's Trainer and accelerate, in processes that import them."""

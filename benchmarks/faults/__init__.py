"""Runs whose trainer, host or launcher is made to fail from outside, and what became of them."""

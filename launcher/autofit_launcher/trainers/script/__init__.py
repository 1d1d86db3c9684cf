"""Trains a person's own script: its adapter, and what its words, files and source say. ``inside`` tries it; ``native`` goes into runs."""

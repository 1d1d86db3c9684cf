"""Any script of a person's own: its adapter, and what its words, files and source say. ``inside`` tries it; ``native`` goes into runs."""

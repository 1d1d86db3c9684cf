"""One module per trainer, each translating a rung into that trainer's own words. ``base`` is the seam."""

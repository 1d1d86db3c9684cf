"""One folder per trainer, each translating a rung into that trainer's own words. ``base`` is the seam, ``suite`` what an adapter owes."""

"""One folder per trainer, each putting rungs in its own words. ``launcher.adapter``: the seam; ``suite``: what is owed."""

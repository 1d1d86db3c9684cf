"""What cards were measured to hold, by their owners and in public, beside what the same training holds on a pretended card."""

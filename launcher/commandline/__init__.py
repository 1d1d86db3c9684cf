"""A command line that a person already has -> the recipe it amounts to. Nothing of it is run."""

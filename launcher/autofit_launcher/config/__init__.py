"""Composes a checked recipe from a command line and files; has the schema of recipes. The only package that knows Hydra."""

"""Makes a checked recipe of a command line and of files; the schema of recipes. The only package that knows Hydra."""

"""Words and files -> a checked recipe. The only package that knows Hydra."""

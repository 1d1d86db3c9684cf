"""Runs one rung in a child process and judges it; proves by twins, short runs in other layouts, that it is the asked training."""

"""Rungs, verdicts, which rung is tried next, and what counts as the same training. Pure: no clock, no file, no process."""

"""Rungs, kinds of verdict, which rung is tried next, what counts as the same training. Pure: no clock, no file, no process."""

"""Rungs, verdicts, and which rung is tried next. Pure: no clock, no file, no process."""

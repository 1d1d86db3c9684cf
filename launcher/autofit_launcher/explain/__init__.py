"""Explains a trainer's log in plain words: what failed, where, for want of how much, and what to change. Starts nothing."""

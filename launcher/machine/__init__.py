"""Processes, memory, cards and locks of this machine."""

"""Defines what a trial's child is told and reports, how memory is read on both sides, and small tools that any package may use.

The trainer's process, in a script's own interpreter too, loads these modules: they import only the standard library and each other.
"""

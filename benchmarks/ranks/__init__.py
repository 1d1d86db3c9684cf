"""Trials and runs of several ranks over gloo, of which one runs out of memory, dies or hangs: the verdict, and how soon. `make ranks`."""

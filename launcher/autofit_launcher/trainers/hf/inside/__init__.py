"""Runs between autofit and a person's own script: the trial around its command, the probe loaded into its processes, its twins."""

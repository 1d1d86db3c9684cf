"""Trainers named for their fault: each module's ``run(orders, recorder)`` is an Ultralytics trial in which one thing goes wrong."""

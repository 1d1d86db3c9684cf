"""Trainings killed at the file boundaries of their saves by ckpt-chaos (PyPI), and its verdicts over what is made of them then."""

"""Twins of a training, in the trainer's process: the same rows, random things at rest, each update held against another's."""

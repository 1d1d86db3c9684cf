"""Instrumentation that a trial loads into somebody else's script from outside; nothing of the script is edited.

``worker/shim/sitecustomize.py`` stands first on PYTHONPATH, so that every Python process of the command runs it at its start, children
included. It loads this package by a private name and calls ``start.install``, which waits for ``torch`` (and ``transformers``,
``lightning``) to be imported and then hooks them. What was seen goes to RECORDS/PID/report.json;
``launcher.trainers.script.inside.trial`` puts the processes' reports together.

Standard library and torch only: the script's interpreter may be another one than autofit's.
"""

"""The command line: verbs, their help and completion, and everything that is printed. ``verbs.py`` lists the verbs."""

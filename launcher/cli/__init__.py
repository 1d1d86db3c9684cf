"""The command line: its verbs, their help and completion, and everything that is printed."""

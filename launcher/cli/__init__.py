"""From argv to a command, and everything that is printed."""

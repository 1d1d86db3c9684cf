"""The order of things: prepare, fit, train, resume."""

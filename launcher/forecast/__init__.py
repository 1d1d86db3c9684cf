"""Predicts what a rung will need without trying it, from traces of the training and figures of the card. Never a verdict."""

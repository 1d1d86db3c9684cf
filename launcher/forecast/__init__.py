"""What a rung will need, foreseen without trying it: traces of a training and figures of a card in, forecasts out. Never a verdict."""

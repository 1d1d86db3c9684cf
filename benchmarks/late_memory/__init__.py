"""Runs whose memory limit is lowered midway, at a moment of our choice: was a step lost, what did it cost, are the weights the same."""

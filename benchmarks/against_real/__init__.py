"""Plain trainings whose peaks a real card has measured, played on a card that isn't there with the same PyTorch."""

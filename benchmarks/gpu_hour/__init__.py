"""One hour on a card, step by step: what no card has shown yet, worth first. Five cases of it are what anybody may send of theirs."""

"""What only a card can show: `make gpu-check`. Five cases, a row per fact, trial, run and check; docs/gpu.md is made of the rows."""

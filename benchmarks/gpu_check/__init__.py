"""What only a card can show: `make gpu-check`. Six cases, a row per fact, trial, run and check; docs/gpu.md is made of the rows."""

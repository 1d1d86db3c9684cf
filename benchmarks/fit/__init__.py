"""How a rung is found: searches side by side, real trials, forecasts held against them."""

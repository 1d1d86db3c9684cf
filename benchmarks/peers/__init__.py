"""Other ways to find a batch, on the same work and the same budgets as ``benchmarks.fit``; and whether their choice lives to the end."""

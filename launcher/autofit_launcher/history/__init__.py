"""Writes and reads what outlives a launch: run folders, records, time series, kept fits. Knows no trainer and no device."""

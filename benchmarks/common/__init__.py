"""What every benchmark shares: rows in a file, and where they were made."""

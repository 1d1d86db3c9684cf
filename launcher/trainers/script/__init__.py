"""What the script adapter knows of a person's command line: how settings are spelled, and the files they stand in."""

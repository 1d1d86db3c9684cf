"""What launches write down and later launches read. Knows no trainer and no device."""

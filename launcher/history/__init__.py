"""What launches write down and later ones read: run folders, records, series, kept fits. Knows no trainer and no device."""

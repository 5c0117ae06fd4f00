"""What suffice knows of machines that are not at hand: entries with value, unit, source, date and kind (docs/catalogue.md)."""

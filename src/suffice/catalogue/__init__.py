"""What suffice knows of devices that are not at hand: entries with value, unit, source, date and kind. A seed so far."""

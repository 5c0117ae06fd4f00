"""Speed of machines that are not at hand: physics, calibrated on measurements of others, with ranges that hold."""

"""Everything that touches the machine: engines, bandwidth, environment, contention, clocks. Each behind a small seam."""

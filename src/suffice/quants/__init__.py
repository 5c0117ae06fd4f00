"""Comparing models on the user's items: asking them, making candidates, distances, and speed side by side. The results are plain records."""

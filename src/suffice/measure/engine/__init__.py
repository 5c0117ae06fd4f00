"""Inference engines behind one seam: llama.cpp in a process of its own, and a fake for tests."""

"""Deployment of a choice: exact commands and files, each value with where it comes from. It returns texts and writes nothing."""

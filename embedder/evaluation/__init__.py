"""Evaluates a model on local files. Needs the extra `[eval]`."""

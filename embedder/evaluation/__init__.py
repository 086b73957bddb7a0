"""Measures what a model is worth on local files. Needs the extra `[train]`."""

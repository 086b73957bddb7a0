"""Benchmarks of the product and experiments with models. Never in a wheel; runs from the repository."""

"""Measures search quality: relevance judgements, metrics, and evaluations in the background."""

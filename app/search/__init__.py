"""Turns a query into ranked hits: dense and BM25 legs, fusion, highlights, soft tokens, lenses."""

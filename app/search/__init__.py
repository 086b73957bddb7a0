"""A query on its way to ranked hits: dense and BM25 legs, fusion, highlights, soft tokens, lenses."""

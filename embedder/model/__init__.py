"""What a model is, and how its weights compute: bodies, heads, vocabulary, prefill, refinement and pooling."""

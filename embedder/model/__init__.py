"""Model architectures and their computation: bodies, heads, vocabulary, prefill, refinement and pooling."""

"""Trains GIRCSE adapters: iterative contrastive refinement through the KV cache. Needs the extra `[train]`."""

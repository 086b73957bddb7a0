"""For CUDA alone: fused kernels of the vocabulary, and decode steps as CUDA graphs. A CPU needs nothing of it."""

"""For CUDA alone: decode steps as CUDA graphs. A CPU needs nothing of it."""

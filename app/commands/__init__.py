"""The commands of `gircse`, one module per group of the help."""

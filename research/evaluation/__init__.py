"""Systems of the papers over one model, and what else was measured of models: `python -m research.evaluation`."""

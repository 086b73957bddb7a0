"""Training beyond GIRCSE: objectives of other papers, and matrices of runs: `python -m research.training`."""

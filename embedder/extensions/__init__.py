"""Optional parts of a contract: sentence selection, projections, generators."""

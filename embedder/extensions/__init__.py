"""What a contract may add to a model: selection of sentences, projections, generators."""

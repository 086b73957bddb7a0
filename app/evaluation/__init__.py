"""How good the answers are: relevance judgements, metrics and evaluations in the background."""

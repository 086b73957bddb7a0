"""A scheduler in front of one model, so that queries, documents and HTTP requests share batches."""

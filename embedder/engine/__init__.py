"""One scheduler before one model: queries, documents and requests over HTTP share its batches."""

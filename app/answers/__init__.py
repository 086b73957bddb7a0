"""Answers to questions: sentences of the documents, or words of a language model, each with its passages."""

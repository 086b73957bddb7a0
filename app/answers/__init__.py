"""Answers questions with sentences of the documents or with a language model's text; both cite passages."""

"""Converts texts and instructions to token ids, and soft tokens to words."""

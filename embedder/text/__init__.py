"""From texts and instructions to token ids, and from soft tokens to words."""

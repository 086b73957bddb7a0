"""What belongs to collections beside documents: lens indexes, saved and monitored searches, synced sources."""

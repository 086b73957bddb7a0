"""The parts of collections other than documents: lens indexes, saved and monitored searches, synced sources."""

"""Training of the value reader: texts against the names of their values under an instruction."""

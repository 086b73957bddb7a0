"""Assembles the application: connects implementations to ports. Each module imports only what its callers need."""

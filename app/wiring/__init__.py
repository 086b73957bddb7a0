"""Puts the application together: real parts behind the ports. Each module imports only what its commands need."""

"""Protocols between the core and its surroundings; app.wiring provides the implementations."""

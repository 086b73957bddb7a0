"""Puts the house together: real parts behind the ports. Heavier parts in later modules: storage, services, web."""

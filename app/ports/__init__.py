"""The protocols that the core is written against; app.wiring gives the implementations."""

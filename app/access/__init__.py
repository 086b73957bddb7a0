"""Access control: users, keys and sessions, and the one authorizer of all interfaces."""

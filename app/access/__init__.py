"""Access control: users, keys and sessions, and the one authorizer that every interface goes through."""

"""Who may do what: users, keys, sessions, and the one gate that every door goes through."""

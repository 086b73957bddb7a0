"""Documents: added from files, folders and addresses, stored, shown page by page, moved and deleted."""

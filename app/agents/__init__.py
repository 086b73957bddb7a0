"""What agents may do here, over the Model Context Protocol (MCP)."""

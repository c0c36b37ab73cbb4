"""`mcp.tool.v1`: tools of Model Context Protocol servers, each called at most once for an operation."""

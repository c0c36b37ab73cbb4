"""`local.document.edit.v1`: a reviewed proposal, applied to a collaborative document inside its allowed ranges."""

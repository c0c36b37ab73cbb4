"""The database's schema, one step a file. Run by `activities.store.migration`."""

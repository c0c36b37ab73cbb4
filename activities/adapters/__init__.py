"""Application adapters: the extension point, the catalog, and the qualified ones that come with Counterfoil."""

"""The service: release folders behind an open API and a page. It reads releases, never a store, and needs no secret."""

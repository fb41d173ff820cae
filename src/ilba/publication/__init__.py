"""From files to a publication: one file describes it, `plan` says what would happen, `publish` does it."""

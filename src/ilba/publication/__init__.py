"""From files to a publication: one file describes it, `plan` is a dry run, `publish` publishes."""

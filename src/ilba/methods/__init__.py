"""Methods of masking, as arithmetic on whole numbers. Nothing here opens a file or knows an engine."""

"""Reading: every kind of file and frame of microdata, code lists, and R's own files."""

"""Read microdata from files and frames, code lists, and R's own files."""

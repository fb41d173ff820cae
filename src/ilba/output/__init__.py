"""What people read: words in their language, formats of other programs, charts, reports and comparisons."""

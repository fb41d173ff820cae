"""Output for people: texts in their language, file formats, charts, reports and comparisons."""

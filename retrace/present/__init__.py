"""How retrace presents its findings: as text, Markdown, JSON and more."""

"""How retrace speaks: the same findings as text, Markdown or JSON."""

"""Programs made again from a recording, and compiled in processes of their own."""

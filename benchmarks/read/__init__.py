"""How fast files are read, and how much memory that takes."""

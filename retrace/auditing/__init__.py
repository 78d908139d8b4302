"""Which programs no longer match the code: read again, and traced anew, in the program itself."""

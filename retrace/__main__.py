"""`python -m retrace`."""

from retrace.cli import main

if __name__ == "__main__":
    main()

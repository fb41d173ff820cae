"""`python -m ilba`: the command line."""

from ilba.cli import main

if __name__ == "__main__":
    main()

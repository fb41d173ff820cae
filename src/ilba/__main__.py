"""`python -m ilba`: the command line."""

from ilba.cli import main

main()

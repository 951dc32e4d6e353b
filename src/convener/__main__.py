"""`python -m convener` is the command `convener`."""

from convener.cli import main

if __name__ == "__main__":
    main()

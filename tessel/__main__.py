"""``python -m tessel``: the command ``tessel``, where its script is not on the path."""

from tessel.cli import main

if __name__ == "__main__":
    main()

"""``python -m flaremq``."""

from flaremq.cli.main import main

if __name__ == "__main__":
    main()

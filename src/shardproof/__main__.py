"""``python -m shardproof``."""

import sys

from shardproof.cli.app import main

if __name__ == "__main__":
    sys.exit(main())

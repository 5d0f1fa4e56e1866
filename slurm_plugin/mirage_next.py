#!/usr/bin/python3 -IS
"""Links of mode submit run this: mirage_next.py CHAIN. Carriers of running chains hold this path."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

from mirage_slurm.client import next_move

if __name__ == "__main__":
    sys.exit(next_move.main(sys.argv))

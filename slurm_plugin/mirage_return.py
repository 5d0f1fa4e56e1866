#!/usr/bin/python3 -IS
"""Waiting links run this: mirage_return.py NAME=VALUE... Carriers of running chains hold this path."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

from mirage_slurm.planner import give_back

if __name__ == "__main__":
    sys.exit(give_back.main(sys.argv))

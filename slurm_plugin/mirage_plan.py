#!/usr/bin/python3 -IS
"""Running links run this: mirage_plan.py NAME=VALUE... Carriers of running chains hold this path."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

from mirage_slurm.planner import plan

if __name__ == "__main__":
    sys.exit(plan.main(sys.argv))

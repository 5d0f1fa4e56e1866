"""`import mirage_handover_torch` in users' programs gives the module mirage_slurm.handover.for_torch."""

import sys

from mirage_slurm.handover import for_torch

sys.modules[__name__] = for_torch

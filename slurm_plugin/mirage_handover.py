"""`import mirage_handover` in users' programs gives the module mirage_slurm.handover.handover."""

import sys

from mirage_slurm.handover import handover

sys.modules[__name__] = handover

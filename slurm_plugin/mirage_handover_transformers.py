"""`import mirage_handover_transformers` in users' programs gives the module mirage_slurm.handover.for_transformers."""

import sys

from mirage_slurm.handover import for_transformers

sys.modules[__name__] = for_transformers

"""`import mirage_watch` in users' programs gives the module mirage_slurm.handover.watch."""

import sys

from mirage_slurm.handover import watch

sys.modules[__name__] = watch

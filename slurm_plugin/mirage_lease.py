"""`import mirage_lease` in users' programs gives the module mirage_slurm.handover.lease_files."""

import sys

from mirage_slurm.handover import lease_files

sys.modules[__name__] = lease_files

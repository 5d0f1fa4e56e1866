"""The hand-over in a plain PyTorch loop, on one process or under torch.distributed.

    loop = mirage_handover_torch.Loop("model.pt")
    state = loop.begin()                 # the saved state, None in a first link; may end the process
    for step in range(first, last):
        train(step)
        loop.step(lambda: {"model": model.state_dict(), "step": step + 1})
    loop.done()

Rank 0 holds the lease; every rank calls these, and all of them end together: begin() and step() by
SystemExit. So call torch.distributed.destroy_process_group() in a `finally` around the loop: ranks
that leave without it may abort each other, and the link's exit code is theirs.
"""

import importlib
import os
import sys

from mirage_slurm.handover.handover import Handover


class Loop(object):
    """A training whose whole state one rank can save with torch.save."""

    def __init__(self, path, handover=None, every=0):
        """`every`: save also each so many steps; 0 leaves that to you (`save`)."""
        self._torch = importlib.import_module("torch")
        self._path = path
        self._every = every
        self._steps = 0
        self.handover = None
        if self._get_rank() == 0:
            self.handover = handover or Handover()

    def begin(self, map_location="cpu"):
        """Return the state that was saved last, or None. Ends the process if this link may not run."""
        if not self._broadcast_answer(lambda: self.handover.begin()):
            sys.exit(0)
        if not os.path.exists(self._path):
            return None
        return self._torch.load(self._path, map_location=map_location)

    def step(self, state):
        """Call this after each step, with a function that returns the state. If the lease is asked
        for, this saves the state and ends the process."""
        self._steps += 1
        if self._broadcast_answer(lambda: self.handover.should_release()):
            self.save(state())
            if self._broadcast_answer(lambda: self.handover.release()):
                sys.exit(0)
        elif self._every and self._steps % self._every == 0:
            self.save(state())

    def save(self, state):
        """Save the state, whole or not at all. Raises LeaseLost if a later link has the lease."""

        def write():
            with self.handover.checkpoint(self._path) as name:
                self._torch.save(state, name)
            return True

        self._broadcast_answer(write)

    def done(self):
        self._broadcast_answer(lambda: self.handover.done() or True)

    def _broadcast_answer(self, ask):
        """Return rank 0's answer on every rank. An error of rank 0 is raised on every rank."""
        if not self._is_distributed():
            return ask()
        answer = [False]
        if self._get_rank() == 0:
            try:
                answer = [bool(ask())]
            except Exception as error:
                answer = [error]
        self._torch.distributed.broadcast_object_list(answer, src=0)
        if isinstance(answer[0], Exception):
            raise answer[0]
        return answer[0]

    def _is_distributed(self):
        distributed = self._torch.distributed
        return distributed.is_available() and distributed.is_initialized()

    def _get_rank(self):
        return self._torch.distributed.get_rank() if self._is_distributed() else 0

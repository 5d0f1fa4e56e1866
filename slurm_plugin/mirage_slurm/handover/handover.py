"""The hand-over between overlapping links of a chain, as a training loop or a server sees it.

    handover = mirage_handover.Handover()
    if not handover.begin():            # waits until this link alone may write
        sys.exit()                      # the chain is done, or a later link has begun
    for step in range(first, last):
        train(step)
        if handover.should_release():   # almost free: it reads the files once a second
            with handover.checkpoint("model.pt") as name:
                torch.save(state, name)
            if handover.release():      # False: no link took the lease; this link has it again
                sys.exit()
    handover.done()

Outside a chain (no MIRAGE_DIR) begin() returns True at once, should_release() is never True, and
checkpoints are still written whole. A plain job that a link submits inherits MIRAGE_DIR without
being a link: there Handover() raises NotALink.
"""

import contextlib
import os
import time

from mirage_slurm.handover import lease_files, watch
from mirage_slurm.handover.lease_files import HandoverError, LeaseLost, NotALink

__all__ = ["Handover", "HandoverError", "LeaseLost", "NotALink"]

STYLES = ("switch", "wait", "serve")
BEAT_S = 5.0


class Handover(object):
    """This run's part in the hand-over. One process of a job makes it: with several ranks, rank 0.

    style       switch: ask the predecessor to release the lease. wait: wait for its end. serve:
                like switch, for a server that calls begin() once it is healthy. Default:
                MIRAGE_STYLE, else wait.
    patience_s  a request without an answer is withdrawn after this time ...
    on_timeout  ... then `wait` waits for the predecessor's end; with `exit`, begin() returns False.
    takeover_s  how long a released lease waits for the link that asked; then this run takes it back.
    stale_s     if the holder's heartbeat stands still for this long, this run asks Slurm.
    save_s      this long before the job's time limit should_release() turns True by itself; at most
                a tenth of the time left at begin().
    poll_s      how often the files are read (also MIRAGE_HANDOVER_POLL_S).
    """

    def __init__(self, directory=None, style=None, patience_s=600.0, on_timeout="wait",
                 takeover_s=60.0, stale_s=20.0, save_s=60.0, poll_s=None):  # fmt: skip
        environ = os.environ
        self._chain = directory or environ.get("MIRAGE_DIR") or None
        self._style_setting = style or lease_files.read_style(environ)
        self.style = self._style_setting or "wait"
        if self.style not in STYLES or on_timeout not in ("wait", "exit"):
            raise ValueError("style is one of %s; on_timeout is wait or exit" % ("|".join(STYLES),))
        self.me = lease_files.Holder(
            int(environ.get("MIRAGE_LINK") or 0),
            environ.get("SLURM_JOB_ID") or "0",
            int(environ.get("SLURM_RESTART_COUNT") or 0),
        )
        self._patience_s, self._on_timeout = patience_s, on_timeout
        self._takeover_s, self._stale_s, self._save_s = takeover_s, stale_s, save_s
        self._poll_s = float(poll_s or environ.get("MIRAGE_HANDOVER_POLL_S") or 1.0)
        self._leases = lease_files.Leases(self._chain) if self._chain else None
        if self._chain:
            lease_files.check_link(self._chain, self.me)
        self._number = None
        self._watch = None
        self._address = None
        self._save_at = None
        self._release_reason = self._asker = None
        self._requests = {}
        self._look_at = self._beat_at = 0.0
        self._beats = 0

    # --- the successor's side ---------------------------------------------------------------------

    def begin(self, address=None):
        """Wait until this run holds the lease. False: the run has nothing to do and should end.

        `address` (host:port of a server that is ready) becomes what handover/address says.
        """
        if self._leases is None:
            return True
        lease_files.suggest_style(self._chain, self._leases, self.me, self._style_setting)
        requester = Asker(
            self._leases, self.me.link, self._patience_s if self.style != "wait" else 0
        )
        try:
            verdict = self._await_turn(requester)
        finally:
            requester.withdraw()
        if verdict is not None:
            self._record_verdict(*verdict)
            return False
        self._hold_lease("took")
        if address is not None:
            self._address = address
            lease_files.write_file(self._leases.get_path("address"), address + "\n")
        return True

    def _await_turn(self, requester):
        """Wait for the lease. Return None once this run has it, else (verdict, sentence)."""
        while True:
            lease = self._leases.read_newest()
            if self._is_ours(lease):
                return None
            verdict = self._find_refusal(lease)
            if verdict is not None:
                return verdict
            if self._is_open(lease):
                if self._take_after(lease):
                    return None
            elif self._watch.is_below_floor() or requester.ask():
                time.sleep(self._poll_s)
            elif self._on_timeout == "exit":
                return "timed-out", "link %d did not release the lease" % (lease.holder.link,)
            else:
                self._record_verdict("waits", "for the end of link %d" % (lease.holder.link,))

    def _is_open(self, lease):
        """Return whether the next lease may be made: the newest is free, or its holder is gone."""
        if lease is None or lease.free:
            return True
        if self._watch is None or self._watch.lease.number != lease.number:
            self._record_verdict("waits", "link %d has the lease" % (lease.holder.link,))
            self._watch = watch.Watch(self._leases, lease, self._stale_s)
        if not self._watch.is_gone():
            return False
        if self._watch.is_cancelled():  # whoever cancels a link means the chain
            why = "link %d was cancelled\n" % (lease.holder.link,)
            lease_files.write_file(os.path.join(self._chain, "stop"), why)
            return False
        return True

    def _take_after(self, lease):
        number = lease.number + 1 if lease is not None else 1
        if not self._leases.take(number, self.me):
            return False
        self._number = number
        return True

    def adopt(self):
        """Go on with the lease that this job holds. Return False if it holds none."""
        if self._leases is None:
            return True
        if not self._is_ours(self._leases.read_newest()):
            return False
        self._address = self._address or self._read_address() or None
        return True

    def _is_ours(self, lease):
        if lease is None or lease.free or lease.holder != self.me:
            return False
        self._number = lease.number
        self._leases.settle(lease.number)  # this job may have been killed before it had settled
        return True

    def _find_refusal(self, lease):
        for marker in ("done", "stop"):
            if os.path.exists(os.path.join(self._chain, marker)):
                return marker, "the chain's folder has the file %s" % (marker,)
        if lease is not None and lease.holder.link > self.me.link:
            return "superseded", "the later link %d has held the lease" % (lease.holder.link,)
        return None

    def _hold_lease(self, verdict, why=""):
        self._release_reason = self._asker = None
        self._requests = self._read_requests()
        self._look_at = self._beat_at = 0.0
        self._record_verdict(verdict, ("lease %d %s" % (self._number, why)).rstrip())
        deadline = os.environ.get("MIRAGE_DEADLINE", "")
        if deadline.isdigit() and self._save_at is None:
            left_s = int(deadline) - time.time()
            if left_s > 0:  # else this node's clock is wrong, and nothing is known of the end
                self._save_at = time.monotonic() + left_s - min(self._save_s, 0.1 * left_s)

    # --- the holder's side ------------------------------------------------------------------------

    @property
    def token(self):
        """`number-job.restart`: who writes. None where there is no chain or no lease."""
        if self._number is None:
            return None
        return "%d-%s.%d" % (self._number, self.me.job, self.me.restart)

    @property
    def reason(self):
        """Why should_release() is True, in words; None while it is not."""
        return self._release_reason

    def should_release(self):
        """True when it is time to save and release the lease. Call it at every step: it is cheap.

        Raises LeaseLost if another run has taken the lease.
        """
        now = time.monotonic()
        if now < self._look_at or self._leases is None:
            return self._release_reason is not None
        self._look_at = now + self._poll_s
        try:
            self._write_beat(now)
            self._note_requests()
            self._keep_address()
            self.check()  # last: a process that was stopped meanwhile must do no further step
        except OSError:
            pass  # a slow file server must not stop training; before a write `check` is strict
        if self._release_reason is None and self._save_at is not None and now >= self._save_at:
            self._release_reason = "the time limit is near"
        return self._release_reason is not None

    def check(self):
        """Raise LeaseLost unless this run may write. Outside a chain it always may."""
        if self._leases is None:
            return
        if self._number is None:
            raise LeaseLost("no lease is held: call begin() first, and end if it returns False")
        try:
            self._leases.check(self._number)
        except LeaseLost as error:
            self._record_verdict("lost", str(error))
            raise

    @contextlib.contextmanager
    def checkpoint(self, path):
        """Give a name to write a file or folder at; it becomes `path` whole, or not at all.

        A folder needs a new name each time. Raises LeaseLost, and leaves `path` alone, if another
        run has the lease by then. Any error in the block leaves `path` alone too.
        """
        path = os.path.realpath(os.fspath(path))
        if os.path.isdir(path):
            raise HandoverError("%s exists: folders are not replaced, name it by step" % (path,))
        self.check()
        leases, number = self._leases or lease_files.NoLeases(), self._number
        try:
            staged = leases.stage(number, self.me, path)
            try:
                yield staged
                leases.commit(number, staged, path)
            finally:
                leases.unstage(number, staged)
        except LeaseLost as error:
            self._record_verdict("lost", str(error))
            raise

    def committed(self, path):
        """Say that `path`, which a library wrote by itself, is complete and the newest."""
        path = os.path.abspath(os.fspath(path))
        lease_files.sync_tree(path)
        lease_files.sync_folder(os.path.dirname(path))
        self.check()
        if self._leases is not None:
            lease_files.write_file(self._leases.get_path("ready", self._number), path + "\n")

    def latest(self):
        """The newest complete checkpoint of the chain, or None."""
        if self._leases is None or self._number is None:
            return None
        return (self._leases.read_ready(self._number) or "").rstrip("\n") or None

    def release(self, drain_s=0.0):
        """Release the lease, after saving. True: end now. False: nobody took it; it is ours again.

        A server goes on serving during the call, and `drain_s` seconds after the new address.
        """
        if self._leases is None:
            return True
        self._find_asker()
        self.check()
        self._leases.free(self._number)
        if self._asker is not None:
            if not self._await_takeover() and self._leases.take(self._number + 1, self.me):
                self._number += 1
                self._hold_lease("took-back", "since %s asked but did not come" % (self._asker,))
                return False
            self._drain_server(drain_s)
        self._record_verdict("handed-over", "lease %d is released" % (self._number,))
        self._number = None
        return True

    def done(self):
        """The work is finished: no further link begins."""
        if self._leases is None:
            return
        self.check()
        marker = os.path.join(self._chain, "done")
        lease_files.write_file(marker, "by handover, job %s\n" % (self.me.job,))
        self._leases.free(self._number)
        self._record_verdict("done", "the work is finished")
        self._number = None

    def _await_takeover(self):
        until = time.monotonic() + self._takeover_s
        while self._leases.read_newest_number() == self._number:
            if time.monotonic() >= until:
                return False
            time.sleep(min(self._poll_s, 0.1))
        return True

    def _drain_server(self, drain_s):
        if self._address is None:
            return
        until = time.monotonic() + self._takeover_s
        while self._read_address() == self._address and time.monotonic() < until:
            time.sleep(min(self._poll_s, 0.1))
        time.sleep(drain_s)

    # --- files ------------------------------------------------------------------------------------

    def _write_beat(self, now):
        if now >= self._beat_at:
            self._beat_at = now + min(BEAT_S, self._stale_s / 4)
            self._beats += 1
            lease_files.write_file(
                self._leases.get_path("beat", self._number), "%d\n" % (self._beats,)
            )

    def _read_address(self):
        return (lease_files.read_file(self._leases.get_path("address")) or "").rstrip("\n")

    def _keep_address(self):
        """Restore the address: a predecessor that was stopped while it wrote its own may have come
        back since, and overwritten it."""
        if self._address is not None and self._read_address() != self._address:
            self.check()
            lease_files.write_file(self._leases.get_path("address"), self._address + "\n")

    def _read_requests(self):
        """Return the requests' texts by link. Requests of this link and earlier ones do not count."""
        requests = {}
        for name in os.listdir(self._leases.get_path("request")):
            if not name.startswith(".") and not (name.isdigit() and int(name) <= self.me.link):
                requests[name] = lease_files.read_file(self._leases.get_path("request", name))
        return requests

    def _note_requests(self):
        """Note a request once its text changes: then its writer is alive."""
        for name, text in self._read_requests().items():
            if text is not None and self._requests.setdefault(name, text) != text:
                self._asker = "link " + name if name.isdigit() else name
                self._release_reason = self._asker + " asks"

    def _find_asker(self):
        """Look for the link that asks for the lease, for three polls at most."""
        until = time.monotonic() + 3 * self._poll_s
        while self._asker is None and self._read_requests() and time.monotonic() < until:
            self._note_requests()
            time.sleep(self._poll_s / 4)

    def _record_verdict(self, verdict, why):
        """Write the verdict into a file, since launchers lose exit codes (NVRx #397), and log it."""
        sentence = "%s: %s" % (verdict, why)
        try:
            lease_files.write_file(
                self._leases.get_path("verdict", self.me.link), "%s\n" % (sentence,)
            )
        except OSError:
            pass  # the file is for people; the lease is what counts
        lease_files.log_line(self._chain, self.me, "hand-over " + sentence)


class Asker(object):
    """A request for the lease, renewed while its writer lives and has patience."""

    def __init__(self, leases, name, patience_s):
        self._path = leases.get_path("request", name)
        self._patience_s = patience_s
        self._until = None
        self._count = 0

    def ask(self):
        """Write or renew the request. Return False once: when patience ends, and with it the request."""
        now = time.monotonic()
        if self._patience_s <= 0:
            return True
        if self._until is None:
            self._until = now + self._patience_s
        if now >= self._until:
            self.withdraw()
            self._patience_s = 0
            return False
        self._count += 1
        counter = (os.uname().nodename, os.getpid(), self._count)
        try:
            lease_files.write_file(self._path, "%s %d %d\n" % counter)
        except OSError:
            pass  # for example a full disk; the lease may become free without a request
        return True

    def withdraw(self):
        if self._count:
            try:
                os.unlink(self._path)
            except OSError:
                pass

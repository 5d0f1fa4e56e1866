"""The lease of a chain: the right to write the chain's checkpoint, kept in files that work on NFS.

Leases are numbered and never replaced; the newest counts. Once lease N is free or its holder is
gone, a link makes lease N+1 with link(2); of several links that try, one wins. A holder that was
stopped and comes back sees a higher number than its own. There are no locks, and no clocks are
compared. Users' scripts and running chains hold on to these files (docs/use/handover.md).
"""

import collections
import errno
import os
import shutil
import stat
import sys
import time
import zlib

FOLDERS = ("beat", "lease", "ready", "request", "stage", "verdict")
LARGEST = 65536
MARK = ".mirage-"
WITHOUT_HANDOVER = ("sequential", "concurrent")

Holder = collections.namedtuple("Holder", ["link", "job", "restart"])
Holder.__doc__ = "One run of one job: a requeued job is another holder than it was before."

Lease = collections.namedtuple("Lease", ["number", "holder", "free"])


class HandoverError(Exception):
    """An action cannot be done. The message says what to do."""


class LeaseLost(HandoverError):
    """Another run holds the lease: this run must write no more."""


class NotALink(HandoverError):
    """This job is no link: it has inherited the variables of the link that submitted it."""


def check_link(chain, holder):
    """Raise NotALink if the chain's files say that this link is another job.

    Every step and component of a link's job has that job's id (22.05). Files that are absent or
    cannot be read prove nothing.
    """
    places = [os.path.join(chain, folder, str(holder.link)) for folder in ("started", "jobs")]
    jobs = [word for word in [(read_file(place) or "").strip() for place in places] if word]
    if jobs and holder.job not in jobs:
        raise NotALink(
            "job %s is no link of this chain, whose link %d is job %s: to run the job outside the"
            " chain, submit it with `env -u MIRAGE_DIR sbatch ...`"
            % (holder.job, holder.link, jobs[0])
        )


def read_style(environ):
    """Return the style of hand-over in MIRAGE_STYLE; None if the chain's links do not hand over."""
    style = environ.get("MIRAGE_STYLE")
    return None if style in WITHOUT_HANDOVER else style or None


def log_line(chain, holder, sentence):
    """Write a line into the chain's log. The log is for people: programs read the other files."""
    now = int(time.time())
    try:
        fd = os.open(os.path.join(chain, "log"),
                     os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)  # fmt: skip
        with os.fdopen(fd, "w") as file:
            file.write("%d link %d job %s: %s\n" % ((now,) + holder[:2] + (sentence,)))
    except OSError:
        pass


def suggest_style(chain, leases, holder, style):
    """Tell the user once, if a program hands over in a sequential chain, which style that needs."""
    try:
        if (read_file(os.path.join(chain, "style")) or "").strip() != "sequential":
            return
        if not make_once(leases.get_path("advised"), ""):
            return
    except OSError:
        return
    sentence = (
        "this chain is sequential: the next link runs nothing before this link has ended or"
        " released the lease. For a hand-over between running links, submit the chain with"
        " --mirage-style=%s" % (style or "switch",)
    )
    log_line(chain, holder, sentence)
    sys.stderr.write("mirage: %s\n" % (sentence,))


class Leases(object):
    """The leases of one chain, and what is kept under each: see docs/use/handover.md for the files."""

    def __init__(self, chain):
        _check_owner(chain)
        self.root = os.path.join(chain, "handover")
        for folder in ("",) + FOLDERS:
            try:
                os.mkdir(os.path.join(self.root, folder), 0o700)
            except FileExistsError:
                pass
        _check_owner(self.root)

    def get_path(self, *names):
        return os.path.join(self.root, *[str(name) for name in names])

    def read_newest_number(self):
        """Return the number of the newest lease; 0 if there is none."""
        return _find_largest(self._list_names())

    def read_newest(self):
        names = self._list_names()
        number = _find_largest(names)
        if number == 0:
            return None
        words = (read_file(self.get_path("lease", number)) or "").split()
        if len(words) != 3 or not (words[0].isdigit() and words[2].isdigit()):
            raise HandoverError(
                "%s cannot be read: once no job of the chain runs, remove %s"
                % (self.get_path("lease", number), self.root)
            )
        holder = Holder(int(words[0]), words[1], int(words[2]))
        return Lease(number, holder, "%d.free" % (number,) in names)

    def find_start(self, lease):
        """Return when the holder of `lease` took its first lease, by the file server's clock.

        A holder that took its lease back has several in a row.
        """
        number = lease.number
        words = read_file(self.get_path("lease", number))
        while number > 1 and read_file(self.get_path("lease", number - 1)) == words:
            number -= 1
        return os.lstat(self.get_path("lease", number)).st_mtime

    def _list_names(self):
        """List the folder of leases. A listing asks the file server; NFS may answer a question for one
        name from its cache."""
        return os.listdir(self.get_path("lease"))

    def take(self, number, holder):
        """Make lease `number`. Return False if another run was first.

        From here on no holder of a lower number makes a checkpoint current. A holder that looks sees
        this lease. A holder that looked just before finds its staged file removed (settle).
        """
        if not make_once(self.get_path("lease", number), "%d %s %d\n" % holder):
            return False
        self.settle(number)
        return True

    def settle(self, number):
        """Remove what holders of earlier leases have staged, and carry the newest checkpoint over to
        this lease. The taker does this before it reads a checkpoint; twice is harmless."""
        for name in os.listdir(self.get_path("stage")):
            if name[:1].isdigit() and int(name.split("-")[0]) < number:
                _remove_staged(read_file(self.get_path("stage", name)) or "")
                _remove_file(self.get_path("stage", name))
        if read_file(self.get_path("ready", number)) is None:
            write_file(self.get_path("ready", number), self.read_ready(number - 1) or "\n")

    def free(self, number):
        write_file(self.get_path("lease", "%d.free" % (number,)), "")  # fits on a full disk too

    def read_ready(self, number):
        """Return the path of the newest complete checkpoint under lease `number` or an earlier one;
        None if there is none."""
        names = [name for name in os.listdir(self.get_path("ready")) if name.isdigit()]
        last = _find_largest([name for name in names if int(name) <= number])
        return read_file(self.get_path("ready", last)) if last else None

    def check(self, number):
        """Raise LeaseLost unless lease `number` is the newest."""
        newest = self.read_newest_number()
        if newest != number:
            raise LeaseLost(
                "lease %d is over, lease %d was taken: this process must stop and write nothing"
                % (number, newest)
            )

    def stage(self, number, holder, path):
        """Return a temporary name at which to write the new `path`. The name is written down first,
        so that a link that takes the lease meanwhile can remove the file."""
        folder, name = os.path.split(os.path.abspath(path))
        mark = "%s%d-%s.%d" % (MARK, number, holder.job, holder.restart)
        staged = os.path.join(folder, "." + name + mark)
        if "\n" in staged:
            raise HandoverError("a checkpoint's name cannot hold a line break")
        write_file(self._get_stage_path(number, staged), staged + "\n")
        self.check(number)
        _remove_staged(staged)
        return staged

    def commit(self, number, staged, path):
        """Make the staged file current, whole: fsync, check the lease, rename.

        A link that takes the lease between the check and the rename removes the staged file, so the
        rename fails: a process that was stopped there overwrites nothing.
        """
        path = os.path.abspath(path)
        sync_tree(staged)
        self.check(number)
        try:
            os.rename(staged, path)
        except FileNotFoundError:
            self.check(number)
            raise
        sync_folder(os.path.dirname(path))
        write_file(self.get_path("ready", number), path + "\n")

    def unstage(self, number, staged):
        _remove_staged(staged)
        _remove_file(self._get_stage_path(number, staged))

    def _get_stage_path(self, number, staged):
        return self.get_path("stage", "%d-%08x" % (number, zlib.crc32(os.fsencode(staged))))


class NoLeases(object):
    """Outside a chain: checkpoints are still written whole."""

    def stage(self, number, holder, path):
        folder, name = os.path.split(path)
        return os.path.join(folder, ".%s%s%d" % (name, MARK, os.getpid()))

    def commit(self, number, staged, path):
        sync_tree(staged)
        os.rename(staged, path)
        sync_folder(os.path.dirname(path))

    def unstage(self, number, staged):
        _remove_staged(staged)


def _find_largest(names):
    return max([int(name) for name in names if name.isdigit()] or [0])


def write_file(path, text):
    """Write a file whole or not at all; it is on the disk when this returns."""
    temporary = _write_temporary(path, text)
    try:
        os.rename(temporary, path)
    except OSError:
        _remove_file(temporary)
        raise
    sync_folder(os.path.dirname(path))


def make_once(path, text):
    """Make a file, whole, unless it exists. Of several processes on any nodes exactly one gets True."""
    temporary = _write_temporary(path, text)
    try:
        try:
            os.link(temporary, path)
            is_made = True
        except OSError as error:
            # NFS may lose the answer to a successful link(2); the number of names shows the success.
            is_made = os.stat(temporary).st_nlink == 2
            if not is_made and error.errno != errno.EEXIST:
                raise
    finally:
        _remove_file(temporary)
    sync_folder(os.path.dirname(path))
    return is_made


def read_file(path):
    """Return the text of a small file, or None if there is none. Symbolic links are not followed."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ESTALE):
            return None
        raise
    with os.fdopen(fd, "rb") as file:
        return os.fsdecode(file.read(LARGEST))


def sync_tree(path):
    """Write a file, or a folder with all its content, through to the disk (fsync)."""
    if not os.path.isdir(path):
        _sync_file(path)
        return
    for folder, _, names in os.walk(path):
        for name in names:
            if not os.path.islink(os.path.join(folder, name)):
                _sync_file(os.path.join(folder, name))
        sync_folder(folder)


def sync_folder(path):
    try:
        _sync_file(path)
    except OSError as error:  # not every file system can sync folders
        if error.errno not in (errno.EINVAL, errno.EBADF, errno.ENOTSUP):
            raise


def _sync_file(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _write_temporary(path, text):
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, ".%s.%s" % (name, os.urandom(8).hex()))
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(os.fsencode(text))
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        _remove_file(temporary)
        raise
    return temporary


def _remove_staged(name):
    """Remove a file or folder that a holder was writing. Only names made by `stage` are removed."""
    name = name.rstrip("\n")
    if MARK not in os.path.basename(name):
        return
    if os.path.isdir(name) and not os.path.islink(name):
        # Rename first: a folder that is being emptied could be committed half empty.
        renamed = name + ".old-" + os.urandom(4).hex()
        try:
            os.rename(name, renamed)
        except FileNotFoundError:
            return
        shutil.rmtree(renamed, ignore_errors=True)
    else:
        _remove_file(name)


def _remove_file(path):
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _check_owner(path):
    try:
        status = os.lstat(path)
    except OSError as error:
        raise HandoverError("%s: %s" % (path, error.strerror)) from None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise HandoverError("%s is no directory of yours" % (path,))
    if status.st_mode & 0o022:
        raise HandoverError("others may write in %s: chmod 700 %s" % (path, path))

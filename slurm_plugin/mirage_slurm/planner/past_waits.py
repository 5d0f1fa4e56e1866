"""Read how long similar jobs waited: from sacct, or from what this chain's own links wrote down; and
whether any job waits now.

sacct is asked once an hour at most, and its answer is kept in the user's cache. If sacct does not
answer, the waits of this chain's own links count. Standard library, Python 3.6.
"""

import os
import stat
import subprocess

from mirage_slurm.client import places
from mirage_slurm.planner import lead_rules, slurm_jobs

DAYS = 14
ASK_S = 20
MOST_ROWS = 50000
KEPT_ROWS = 20000  # the newest
AGAIN_S = 3600
OLD_S = 86400  # an older cached answer is of no use
STATES = "BF,CA,CD,DL,F,NF,OOM,PR,R,RQ,S,TO"
HEAD = "mirage waits 1 "
LARGEST = 4 << 20
CLOCK_S = 120  # the clocks of two nodes may differ by this much


def read_like_jobs(partition, qos, job, environ, now):
    """Return rows (nodes, time limit in s, wait in s) of the last two weeks, oldest first; empty if
    nothing is known. The job id spreads the hour, so that not all links ask sacct at once."""
    key = "%s %s %s" % (environ.get("SLURM_CLUSTER_NAME", ""), partition, qos)
    path = _get_cache_path(key, environ)
    cached_at, rows = _read_cache(path, key, now)
    if cached_at is not None and now - cached_at < AGAIN_S:
        return rows
    if _can_ask(path, job, now):
        rows_now = _ask_sacct(partition, qos, environ)
        if rows_now is not None:
            _write_cache(path, key, now, rows_now)
            return rows_now
    return rows


# --- sacct -----------------------------------------------------------------------------------------


def _ask_sacct(partition, qos, environ):
    """Ask sacct for rows. Return None if the answer was cut: by time, by rows, or by an error."""
    words = ["timeout", str(ASK_S), "nice", "-n", "19", "sacct", "-n", "-P", "-X", "-a"]
    words += ["-S", "now-%ddays" % (DAYS,), "-E", "now", "-s", STATES, "-r", partition]
    words += (["-q", qos] if qos else []) + ["-o", lead_rules.COLUMNS]
    process = subprocess.Popen(  # noqa: S603 - an argument vector
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=dict(environ, SLURM_TIME_FORMAT="%s"),
    )
    rows, lines = [], 0
    with process.stdout:
        for line in process.stdout:
            lines += 1
            if lines > MOST_ROWS:
                process.kill()
                break
            row = lead_rules.parse_row(line.decode("ascii", "replace").rstrip("\n"))
            if row is not None:
                rows.append(row)
    if process.wait() != 0 or lines > MOST_ROWS:
        return None
    rows.sort()
    return [row[1:] for row in rows]


# --- who waits now ---------------------------------------------------------------------------------


def is_alone(link, environ):
    """Return whether no job waits for nodes of the link's partition.

    False if the site hides other users' jobs: nobody waits, as far as this user sees, and that
    proves nothing. Raises Unseen if Slurm does not answer.
    """
    if not link.partition:
        return False
    has_waiting, sees_others = slurm_jobs.find_waiting(link.partition, environ)
    return not has_waiting and (sees_others or not _hides_jobs(link, environ))


def _hides_jobs(link, environ):
    """Return whether the site hides other users' jobs. Slurm is asked once a day."""
    word, _, at = link.read_line("private").partition(" ")
    asked_at = lead_rules.parse_whole(at)
    if word not in ("jobs", "none") or asked_at is None or not 0 <= link.now - asked_at < OLD_S:
        word = "jobs" if slurm_jobs.hides_jobs(environ) else "none"
        replace_file(link.get_path("private"), "%s %d\n" % (word, link.now))
    return word == "jobs"


# --- the cache: a line for the key and the time, then a line for each row ----------------------------


def _get_cache_path(key, environ):
    import zlib

    name = "waits-%08x" % (zlib.crc32(os.fsencode(key)) & 0xFFFFFFFF,)
    return os.path.join(places.get_cache_folder(environ), name)


def _read_cache(path, key, now):
    """Return when the cache was written, and its rows; None and no rows if the cache is of no use."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            status = os.fstat(fd)
            is_own = status.st_uid == os.geteuid() and not status.st_mode & 0o022
            if not (stat.S_ISREG(status.st_mode) and is_own):
                return None, []
            lines = os.fsdecode(file.read(LARGEST)).split("\n")
    except OSError:
        return None, []
    cached_at = lead_rules.parse_whole(lines[0].rpartition(" ")[2])
    if cached_at is None or lines[0] != HEAD + key + " %d" % (cached_at,) or lines[-1] != "":
        return None, []
    rows = [_parse_numbers(line, 3) for line in lines[1:-1]]
    if None in rows or not 0 <= now - cached_at < OLD_S:
        return None, []
    return cached_at, rows


def _parse_numbers(line, count):
    words = [lead_rules.parse_whole(word) for word in line.split(" ")]
    return tuple(words) if len(words) == count and None not in words else None


def _can_ask(path, job, now):
    """Return whether sacct may be asked now: once an hour, whatever it answers. So the mark is made
    before the question."""
    mark = path + ".asked"
    try:
        places.make_private_folder(os.path.dirname(path))
        try:
            age = now - os.lstat(mark).st_mtime
            if 0 <= age < AGAIN_S + job % 600:
                return False
        except FileNotFoundError:
            pass
        fd = os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        os.utime(fd, (now, now))
        os.close(fd)
    except OSError:
        return False  # without a mark every link would ask
    return True


def _write_cache(path, key, now, rows):
    lines = [HEAD + key + " %d" % (now,)] + ["%d %d %d" % row for row in rows[-KEPT_ROWS:]]
    replace_file(path, "\n".join(lines) + "\n")


def replace_file(path, text):
    """Write a file of the user's, whole or not at all. Return whether it was written."""
    temporary = "%s.new.%d" % (path, os.getpid())
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(os.fsencode(text))
        os.rename(temporary, path)
    except OSError:
        return False
    return True


# --- the chain's own hand-overs: waited/<link>, "START LEAD WAIT" -----------------------------------


def record_handover(directory, link, start, lead_s, wait_s):
    """Record this link's wait, and how long before its predecessor's end it was eligible."""
    path = os.path.join(directory, "waited", str(link))
    replace_file(path, "%d %d %d\n" % (start, max(0, lead_s), wait_s))


def read_handovers(directory, link, now):
    """Return (start, lead, wait) in seconds for the hand-overs up to this link, oldest first. A file
    that is torn, somebody else's or from the future is left out."""
    handovers = [_read_handover(directory, index, now) for index in range(2, link + 1)]
    return [numbers for numbers in handovers if numbers is not None]


def compute_start_up(directory, link, now):
    """Return the median time from a job's start to the lease, over links of this chain.

    None: unknown. A time above MOST_START_UP_S is no start-up.
    """
    handovers = {index: _read_handover(directory, index, now) for index in range(2, link + 1)}
    leases = _list_leases(directory, now)
    start_ups = [
        taken_at - handovers[index][0]
        for index, _, taken_at in leases
        if handovers.get(index) is not None
    ]
    most_s = lead_rules.MOST_START_UP_S
    start_ups = sorted(start_up_s for start_up_s in start_ups if 0 <= start_up_s <= most_s)
    return start_ups[len(start_ups) // 2] if start_ups else None


def compute_longest_lead(link, own, start_up_s):
    """Return how many seconds before its end this link will have worked for its floor; None if no
    link of its chain asks another one to end. `own`: this link's Row."""
    if not link.asks_to_end:
        return None
    floor_s = lead_rules.compute_floor(link.min_runtime_s, own.limit_s)
    return max(0, own.end - _find_work_start(link, own.start, start_up_s) - floor_s)


def _find_work_start(link, start, start_up_s):
    """Return when this link began to work: when its program took the lease. Without a lease yet, that
    is expected start_up_s after the script's first line."""
    own = (link.index, link.job)
    leases = _list_leases(link.directory, link.now)
    starts = [
        taken_at for index, job, taken_at in leases if (index, job) == own and taken_at >= start
    ]
    if starts:
        return min(starts)
    began = lead_rules.parse_whole(link.read_line("began", link.index)) or 0
    return max(start, began) + start_up_s


def _list_leases(directory, now):
    """Return (link, job, time taken) for each lease of the chain."""
    folder, leases = os.path.join(directory, "handover", "lease"), []
    for name in _list_folder(folder):
        if lead_rules.parse_whole(name) is None:
            continue
        path = os.path.join(folder, name)
        holder = [lead_rules.parse_whole(w) for w in read_own_line(path, now).split(" ")[:2]]
        if len(holder) == 2:
            leases.append((holder[0], holder[1], int(os.lstat(path).st_mtime)))
    return leases


def _read_handover(directory, link, now):
    numbers = _parse_numbers(read_own_line(os.path.join(directory, "waited", str(link)), now), 3)
    return numbers if numbers is not None and numbers[0] <= now + CLOCK_S else None


def _list_folder(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []


def read_own_line(path, now):
    """Return the first line of a file that is the user's own and complete; else ""."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            status = os.fstat(fd)
            text = file.read(4096)
    except OSError:
        return ""
    is_own = status.st_uid == os.geteuid() and not status.st_mode & 0o022
    if not (stat.S_ISREG(status.st_mode) and is_own and status.st_mtime <= now + CLOCK_S):
        return ""
    line, end, _ = text.partition(b"\n")
    return line.decode("ascii", "replace") if end else ""


def read_end(path):
    """Return the last lines of a log that others write to; the first line may be torn."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as log:
            log.seek(max(0, os.fstat(fd).st_size - 4096))
            return log.read(4096).decode("utf-8", "replace").split("\n")
    except OSError:
        return []

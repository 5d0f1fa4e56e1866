"""Read how long similar jobs waited: from sacct, or from the notes of this chain's own links; and
whether any job waits now.

sacct is asked once an hour at most, and its answer is kept in the user's cache. If sacct does not
answer, the notes of this chain's own links count. Standard library, Python 3.6.
"""

import os
import stat
import subprocess

import mirage_forecast
import mirage_jobs
import mirage_places

DAYS = 14
ASK_S = 20
MOST_ROWS = 50000
KEPT_ROWS = 20000  # the newest
AGAIN_S = 3600
OLD_S = 86400  # a kept answer serves so long where no newer one is to be had
STATES = "BF,CA,CD,DL,F,NF,OOM,PR,R,RQ,S,TO"
HEAD = "mirage waits 1 "
LARGEST = 4 << 20
CLOCK_S = 120  # by which the clocks of two nodes may differ


def read_like_jobs(partition, qos, job, environ, now):
    """Rows (nodes, time limit, wait) of the last two weeks, oldest first; empty where none are to be
    had. `job` spreads the hour, so that not all links ask at once."""
    key = "%s %s %s" % (environ.get("SLURM_CLUSTER_NAME", ""), partition, qos)
    path = _get_cache_path(key, environ)
    made, rows = _read_cache(path, key, now)
    if made is not None and now - made < AGAIN_S:
        return rows
    if _can_ask(path, job, now):
        asked = _ask_sacct(partition, qos, environ)
        if asked is not None:
            _write_cache(path, key, now, asked)
            return asked
    return rows


# --- sacct -----------------------------------------------------------------------------------------


def _ask_sacct(partition, qos, environ):
    """None of an answer that was cut: by time, by rows, or by an error."""
    words = ["timeout", str(ASK_S), "nice", "-n", "19", "sacct", "-n", "-P", "-X", "-a"]
    words += ["-S", "now-%ddays" % (DAYS,), "-E", "now", "-s", STATES, "-r", partition]
    words += (["-q", qos] if qos else []) + ["-o", mirage_forecast.COLUMNS]
    asked = subprocess.Popen(  # noqa: S603 - an argument vector
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=dict(environ, SLURM_TIME_FORMAT="%s"),
    )
    found, lines = [], 0
    with asked.stdout:
        for line in asked.stdout:
            lines += 1
            if lines > MOST_ROWS:
                asked.kill()
                break
            row = mirage_forecast.parse_row(line.decode("ascii", "replace").rstrip("\n"))
            if row is not None:
                found.append(row)
    if asked.wait() != 0 or lines > MOST_ROWS:
        return None
    found.sort()
    return [row[1:] for row in found]


# --- who waits now ---------------------------------------------------------------------------------


def is_alone(link, environ):
    """Return whether no job waits for nodes of the link's partition.

    Of a queue that may have gaps nobody can say so. Raises Unseen where Slurm does not answer.
    """
    if not link.partition:
        return False
    waits, sees_others = mirage_jobs.find_waiting(link.partition, environ)
    return not waits and (sees_others or not _hides_jobs(link, environ))


def _hides_jobs(link, environ):
    """Slurm is asked once a day."""
    word, _, at = link.read_line("private").partition(" ")
    told = mirage_forecast.parse_whole(at)
    if word not in ("jobs", "none") or told is None or not 0 <= link.now - told < OLD_S:
        word = "jobs" if mirage_jobs.hides_jobs(environ) else "none"
        replace_file(link.get_path("private"), "%s %d\n" % (word, link.now))
    return word == "jobs"


# --- the cache: a line for the key and the instant, one for each row ---------------------------------


def _get_cache_path(key, environ):
    import zlib

    name = "waits-%08x" % (zlib.crc32(os.fsencode(key)) & 0xFFFFFFFF,)
    return os.path.join(mirage_places.get_cache_folder(environ), name)


def _read_cache(path, key, now):
    """Return when the cache was kept, and its rows; None and no rows if nothing is of use."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as kept:
            found = os.fstat(fd)
            own = found.st_uid == os.geteuid() and not found.st_mode & 0o022
            if not (stat.S_ISREG(found.st_mode) and own):
                return None, []
            lines = os.fsdecode(kept.read(LARGEST)).split("\n")
    except OSError:
        return None, []
    made = mirage_forecast.parse_whole(lines[0].rpartition(" ")[2])
    if made is None or lines[0] != HEAD + key + " %d" % (made,) or lines[-1] != "":
        return None, []
    rows = [_parse_numbers(line, 3) for line in lines[1:-1]]
    if None in rows or not 0 <= now - made < OLD_S:
        return None, []
    return made, rows


def _parse_numbers(line, count):
    words = [mirage_forecast.parse_whole(word) for word in line.split(" ")]
    return tuple(words) if len(words) == count and None not in words else None


def _can_ask(path, job, now):
    """Once an hour, whatever comes of it: the mark is made first."""
    mark = path + ".asked"
    try:
        mirage_places.make_private_folder(os.path.dirname(path))
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
        return False  # nobody would know that it was asked
    return True


def _write_cache(path, key, now, rows):
    lines = [HEAD + key + " %d" % (now,)] + ["%d %d %d" % row for row in rows[-KEPT_ROWS:]]
    replace_file(path, "\n".join(lines) + "\n")


def replace_file(path, text):
    """Write a file of the user's whole or not at all."""
    own = "%s.new.%d" % (path, os.getpid())
    try:
        fd = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "wb") as made:
            made.write(os.fsencode(text))
        os.rename(own, path)
    except OSError:
        return False
    return True


# --- the chain's own hand-overs: waited/<link>, "START LEAD WAIT" -----------------------------------


def record_handover(directory, link, start, lead_s, wait_s):
    """Record this link's wait, and how long before its predecessor's end it was eligible."""
    path = os.path.join(directory, "waited", str(link))
    replace_file(path, "%d %d %d\n" % (start, max(0, lead_s), wait_s))


def read_handovers(directory, link, now):
    """(start, lead, wait) of the hand-overs up to this link, oldest first. A note that is torn,
    somebody else's or from the future is none."""
    found = [_read_handover(directory, one, now) for one in range(2, link + 1)]
    return [numbers for numbers in found if numbers is not None]


def compute_start_up(directory, link, now):
    """Return the median time from a job's start to the lease, over links of this chain.

    None: unknown. A time above MOST_START_UP_S is no start-up.
    """
    notes = {one: _read_handover(directory, one, now) for one in range(2, link + 1)}
    leases = _list_leases(directory, now)
    taken = [at - notes[one][0] for one, _, at in leases if notes.get(one) is not None]
    most_s = mirage_forecast.MOST_START_UP_S
    taken = sorted(seconds for seconds in taken if 0 <= seconds <= most_s)
    return taken[len(taken) // 2] if taken else None


def compute_longest_lead(link, own, start_up_s):
    """Return how long before its end this link will have worked for its floor; None where no link
    of its chain asks another one to end. `own`: its Row."""
    if not link.asks_to_end:
        return None
    floor_s = mirage_forecast.compute_floor(link.min_runtime_s, own.limit_s)
    return max(0, own.end - _find_work_start(link, own.start, start_up_s) - floor_s)


def _find_work_start(link, start, start_up_s):
    """A program takes the lease as soon as it is ready. Where none is taken yet, that is so long
    after the script's first line."""
    own = (link.index, link.job)
    leases = _list_leases(link.directory, link.now)
    taken = [at for one, job, at in leases if (one, job) == own and at >= start]
    if taken:
        return min(taken)
    began = mirage_forecast.parse_whole(link.read_line("began", link.index)) or 0
    return max(start, began) + start_up_s


def _list_leases(directory, now):
    """(link, job, instant) of each lease of the chain."""
    folder, found = os.path.join(directory, "handover", "lease"), []
    for name in _list_folder(folder):
        if mirage_forecast.parse_whole(name) is None:
            continue
        path = os.path.join(folder, name)
        holder = [mirage_forecast.parse_whole(w) for w in read_own_line(path, now).split(" ")[:2]]
        if len(holder) == 2:
            found.append((holder[0], holder[1], int(os.lstat(path).st_mtime)))
    return found


def _read_handover(directory, link, now):
    numbers = _parse_numbers(read_own_line(os.path.join(directory, "waited", str(link)), now), 3)
    return numbers if numbers is not None and numbers[0] <= now + CLOCK_S else None


def _list_folder(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []


def read_own_line(path, now):
    """The first line of a whole file that is the user's own; else nothing."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as kept:
            found = os.fstat(fd)
            text = kept.read(4096)
    except OSError:
        return ""
    own = found.st_uid == os.geteuid() and not found.st_mode & 0o022
    if not (stat.S_ISREG(found.st_mode) and own and found.st_mtime <= now + CLOCK_S):
        return ""
    line, end, _ = text.partition(b"\n")
    return line.decode("ascii", "replace") if end else ""


def read_end(path):
    """The last lines of a log that is written to meanwhile, the first of them perhaps torn."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as log:
            log.seek(max(0, os.fstat(fd).st_size - 4096))
            return log.read(4096).decode("utf-8", "replace").split("\n")
    except OSError:
        return []

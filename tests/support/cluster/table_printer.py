"""squeue, sacct and scontrol that print a table of jobs: `table_printer.py TABLE COMMAND ...`.

They print the fields and jobs that arguments and environment ask for. A job's text may hold lies:
rows that its user wrote into it. Users write the separator of this very call where they can see it,
and a guess elsewhere.

`hostile_jobs.install` has it run without the package; it uses the standard library only.
"""

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

Row = dict[str, str]


def text_with_lies(
    own: str, lies: Sequence[Row | None], names: Sequence[str], place: int, separator: str
) -> str:
    """Return `own` and the lies as rows of `names`, for the field at `place`.

    A lie None is the separator alone.
    """
    parts = [own]
    for lie in lies:
        parts.append(separator)
        if lie is not None:
            filler = f"x{separator}" * (len(names) - place - 1)
            beginning = separator.join(lie.get(name, "") for name in names[: place + 1])
            parts.append(f"{filler}\n{beginning}")
    return "".join(parts)


def cells(
    table: dict[str, Any], job: dict[str, Any], names: Sequence[str], separator: str
) -> list[str]:
    row = table["common"] | job["row"] | ({} if "JobIDRaw" in names else job["in_queue"])
    return [
        text_with_lies(
            row.get(name, ""), job["lies"].get(name, ()), names, i, separator or job["guess"]
        )
        for i, name in enumerate(names)
    ]


def option(words: Sequence[str], name: str) -> str | None:
    values = [word.partition("=")[2] for word in words if word.startswith(f"{name}=")]
    return values[-1] if values else None


def squeue(table: dict[str, Any], words: Sequence[str]) -> str:
    by_option = option(words, "--Format")
    format_text = by_option or os.environ["SQUEUE_FORMAT2"]
    pairs = [field.partition(":")[::2] for field in format_text.split(",")]
    names = [name for name, _ in pairs]
    separator = pairs[0][1] if by_option or table["separator_known"] else ""
    ids = option(words, "--jobs")
    chosen_ids = None if ids is None else set(ids.split(","))
    lines = []
    for job in table["jobs"]:
        if chosen_ids is None or job["row"]["JobID"] in chosen_ids:
            printed = cells(table, job, names, separator)
            ends = (f"{cell}{end}" for cell, (_, end) in zip(printed, pairs, strict=True))
            lines.append("".join(ends) + "\n")
    return "".join(lines)


def sacct(table: dict[str, Any], words: Sequence[str]) -> str:
    if "--helpformat" in words:
        return str(table["helpformat"])
    names = (option(words, "--format") or "").split(",")
    separator = option(words, "--delimiter") or "|"
    lines = [names] if "--noheader" not in words else []
    lines += [
        cells(table, job, names, separator) for job in table["jobs"] if _chosen(job["row"], words)
    ]
    return "".join(f"{separator.join(line)}{separator}\n" for line in lines)


def _chosen(row: Row, words: Sequence[str]) -> bool:
    ids, uids, end = (option(words, f"--{name}") for name in ("jobs", "uid", "endtime"))
    if ids is not None and row["JobIDRaw"] not in ids.split(","):
        return False
    if uids is not None and row["UID"] not in uids.split(","):
        return False
    return end is None or int(row["Submit"]) <= int(end.removeprefix("uts"))


def scontrol(table: dict[str, Any], words: Sequence[str]) -> str:
    """`show job`, whatever is asked."""
    lines = []
    for job in table["jobs"]:
        names = ("JobId", "JobName", "UserId", "SubmitTime", "Comment", "WorkDir")
        row = table["common"] | job["row"]
        values = (row["JobID"], row["Name"], row["UserID"], row["SubmitTime"], row["Comment"], "/")
        lines.append(" ".join(f"{n}={t}" for n, t in zip(names, values, strict=True)) + "\n")
    return "".join(lines)


def main(path: str, command: str, words: Sequence[str]) -> None:
    with open(path, encoding="ascii") as file:
        table = json.load(file)
    with open(f"{path}.{command}", "a", encoding="ascii") as log:
        log.write(json.dumps(words) + "\n")
    answer = {"squeue": squeue, "sacct": sacct, "scontrol": scontrol}[command](table, words)
    sys.stdout.buffer.write(answer.encode("utf-8", "surrogateescape"))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])

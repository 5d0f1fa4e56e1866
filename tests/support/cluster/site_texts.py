"""Slurm's answers about a site with a bit of everything, for tests that import it."""

from mirage.history.site_import.slurm_answers import QUESTIONS, SiteAnswers
from tests.support.paths import DATA

SITE = DATA / "slurm-22.05"


def config(**changes: str) -> str:
    """The testbed's configuration, with other values for some keys."""
    lines = []
    for line in (SITE / "scontrol-show-config.txt").read_text().splitlines():
        key = line.partition("=")[0].strip()
        lines.append(f"{key} = {changes.pop(key)}" if key in changes else line)
    assert not changes, f"the captured configuration has no {', '.join(changes)}"
    return "\n".join(lines) + "\n"


def node(name: str, *, cpus: int = 64, mib: int = 512000, gpus: int = 4, **changes: str) -> str:
    facts = {
        "NodeName": name,
        "Arch": "x86_64",
        "CPUTot": str(cpus),
        "AvailableFeatures": "(null)",
        "Gres": f"gpu:a100:{gpus}(S:0-1)" if gpus else "(null)",
        "OS": "Linux 6.1 #1 SMP",
        "RealMemory": str(mib),
        "State": "IDLE",
        "Weight": "1",
        "UnknownKey": "of a later release",
    }
    return " ".join(f"{key}={value}" for key, value in (facts | changes).items())


def partition(name: str, nodes: str, **changes: str) -> str:
    facts = {
        "PartitionName": name,
        "AllowQos": "ALL",
        "Default": "NO",
        "QoS": "N/A",
        "MaxTime": "2-00:00:00",
        "Nodes": nodes,
        "PriorityJobFactor": "1",
        "PriorityTier": "1",
        "OverSubscribe": "NO",
        "State": "UP",
    }
    return " ".join(f"{key}={value}" for key, value in (facts | changes).items())


NODES = [
    *(node(f"gpu0{i}") for i in range(1, 5)),
    node("gpu05", State="IDLE+DRAIN", Reason="bad GPU [root@2026-11-01]"),
    *(node(f"big{i}", cpus=128, mib=2048000, gpus=8) for i in (1, 2)),
]
PARTITIONS = [
    partition("debug", "gpu[01-02]", PriorityTier="2", MaxTime="00:30:00"),
    partition("gpu", "gpu[01-05],big[1-2]", Default="YES", PriorityJobFactor="5"),
    partition("big", "big[1-2]", MaxTime="UNLIMITED", OverSubscribe="EXCLUSIVE", AllowQos="high"),
]
RESERVATIONS = [
    "ReservationName=maint StartTime=1700000000 EndTime=1700003600 Nodes=gpu[01-03] NodeCnt=3 "
    "Flags=MAINT,SPEC_NODES Users=root Groups=(null) Accounts=(null) State=INACTIVE",
    "ReservationName=course StartTime=2023-11-14T23:00:00 EndTime=2023-11-15T01:00:00 Nodes=gpu03 "
    "Flags=WEEKLY,SPEC_NODES Users=(null) Accounts=students State=INACTIVE",
    "ReservationName=licence StartTime=1700000000 EndTime=1700003600 Nodes=(null) Flags=ANY_NODES",
]
QOS = [
    "Name|Priority|Preempt|UsageFactor|GrpTRES|MaxTRESPU|MaxJobsPU|MaxSubmitPU",
    "high|100||1.000000|||2|5",
    "normal|10||1.000000|cpu=999|cpu=128,gres/gpu:a100=16,license/x=3||",
]
ASSOCIATIONS = [
    "Cluster|Account|User|Share|MaxJobs|QOS|Def QOS",
    "testbed|root||1||normal|",
    "testbed|physics||10||normal|",
    "testbed|physics|ann|3||high,normal|normal",
    "testbed|physics|bea|parent|7|high,normal|normal",
    "testbed|students||5||normal|",
    "testbed|students|cleo|1||high|high",
    "elsewhere|chemistry||99||normal|",
]


def texts() -> dict[str, str]:
    """Return the texts of all questions, by file name."""
    lists = [NODES, PARTITIONS, RESERVATIONS, QOS, ASSOCIATIONS]
    answers = [config(), *("\n".join(lines) + "\n" for lines in lists)]
    return {question.file: text for question, text in zip(QUESTIONS, answers, strict=True)}


def answers(**changes: str) -> SiteAnswers:
    """The answers, with other values for some keys of the configuration."""
    texts_by_file = texts() | {"scontrol-show-config.txt": config(**changes)}
    return SiteAnswers(texts={q: texts_by_file[q.file] for q in QUESTIONS}, missing={})

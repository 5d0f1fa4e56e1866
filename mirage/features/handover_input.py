"""The hand-over that is observed: the successor, and the run it is to follow."""

from dataclasses import dataclass

from mirage.sim.types import SimJob


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverInput:
    """A successor and its running predecessor. Instants are epoch seconds, durations seconds."""

    nodes: int
    time_limit_s: int
    user: str
    account: str = ""
    partition: str = ""
    """Empty: the cluster's default one."""
    qos: str = ""
    cpus: int = 0
    """Per node, where nodes are shared; as in `SimJob`."""
    gpus: int = 0
    """Per node, where nodes are shared."""
    exclusive: bool = False
    """Whole nodes, where nodes are shared; each has `cpus` and `gpus` at least, as in `SimJob`."""
    job_id: int = 0
    """The successor's own id where it stands in the queue already, so that it is not counted among
    its rivals; 0: it does not."""
    submit: int | None = None
    """Since when it earns age under ACCRUE_ALWAYS; None: it would be submitted at the instant."""
    predecessor_submit: int
    predecessor_start: int
    predecessor_end: int
    """By its time limit."""
    predecessor_nodes: int | None = None
    """None: as many as the successor's."""

    def build_successor(self, now: int) -> SimJob:
        """The job that would become eligible at `now`; its run time is not known: the limit."""
        return SimJob(
            submit=now if self.submit is None else min(self.submit, now),
            nodes=self.nodes,
            cpus=self.cpus,
            gpus=self.gpus,
            exclusive=self.exclusive,
            time_limit_s=self.time_limit_s,
            run_s=self.time_limit_s,
            user=self.user,
            account=self.account,
            partition=self.partition,
            qos=self.qos,
        )

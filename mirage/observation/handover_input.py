"""The hand-over of an observation: the successor, and the run that it follows."""

from dataclasses import dataclass

from mirage.simulator.types import SimJob


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
    """CPUs per node if nodes are shared, as in `SimJob`."""
    gpus: int = 0
    """GPUs per node if nodes are shared."""
    exclusive: bool = False
    """Whether the job takes whole nodes where nodes are shared; each node then has at least
    `cpus` and `gpus`, as in `SimJob`."""
    job_id: int = 0
    """The successor's own id where it stands in the queue already, so that it is not counted among
    its rivals; 0: it does not."""
    submit: int | None = None
    """The instant from which it earns age under ACCRUE_ALWAYS; None: it would be submitted at
    the instant of the observation."""
    predecessor_submit: int
    predecessor_start: int
    predecessor_end: int
    """The predecessor's end by its time limit."""
    predecessor_nodes: int | None = None
    """The predecessor's nodes; None: as many as the successor's."""

    def build_successor(self, now: int) -> SimJob:
        """Build the job that would become eligible at `now`. Its run time is not known, so the
        time limit stands for it."""
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

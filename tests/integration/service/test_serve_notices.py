"""`mirage serve` with a mail server: mail goes out, and one that is dead delays no tick."""

import time
from contextlib import closing
from pathlib import Path

from mirage.database.chains import chains
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.chain import Chain, ChainId, ChainState
from mirage.domain.chain_cause import Reason, build_mirage_cause
from tests.support.mirage_process import QuietSlurm, configured, run, serving
from tests.support.notify.smtp_server import Post
from tests.support.notify.smtp_server import serving as taking_mail
from tests.support.patient import wait_until

CHAIN = ChainId("endedchain1")
PATIENCE_S = 60


def site(tmp_path: Path, port: int) -> Path:
    """A database with a chain that has just ended, and nobody was told."""
    path = configured(tmp_path)
    path.write_text(
        f"{path.read_text()}"
        "[polling]\nqueue_s = 1\n"
        f'[notify]\nsmtp_host = "127.0.0.1"\nsmtp_port = {port}\nsmtp_security = "none"\n'
        'mail_from = "mirage@example.org"\nowner_address = "{user}@example.org"\n'
    )
    assert run("db", "upgrade", "--config", str(path)).code == 0
    with closing(Store(f"sqlite:///{tmp_path}/state/mirage.db")) as store, store.begin() as tx:
        ended = Chain(
            chain_id=CHAIN,
            uid=1001,
            user="alice",
            state=ChainState.FAILED,
            created_at=int(time.time()),
            cause=build_mirage_cause(Reason.FAILED_FAST),
        )
        chains.save_chain(tx, clusters.ensure_cluster(tx, "lab"), ended)
    return path


def test_what_became_of_a_chain_is_mailed_to_its_owner(slurm: QuietSlurm, tmp_path: Path) -> None:
    with taking_mail() as post, serving(site(tmp_path, post.port), slurm) as service:
        wait_until(lambda: bool(post.messages), "no mail")
        assert service.end() == 0
    assert post.recipients == ["<alice@example.org>"]
    assert "the chain is failed: 3 links in a row failed" in post.messages[0].get_payload()


def test_a_dead_mail_server_delays_no_tick(slurm: QuietSlurm, tmp_path: Path) -> None:
    with (
        taking_mail(Post(hangs=True)) as post,
        serving(site(tmp_path, post.port), slurm) as service,
    ):
        assert post.called.wait(PATIENCE_S)
        before = len(slurm.calls("squeue"))
        wait_until(lambda: len(slurm.calls("squeue")) >= before + 3, "the worker has stopped")
        assert not post.go_on.is_set(), "the mail server hangs still"
        post.go_on.set()
        assert service.end() == 0
    assert [line["level"] for line in service.log() if line["level"] == "error"] == []

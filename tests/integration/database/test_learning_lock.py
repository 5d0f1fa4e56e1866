"""One run of learning at a time for a database, on SQLite and on PostgreSQL."""

import os
import socket
import subprocess
import sys
from contextlib import closing

import pytest

from mirage.database.learning.learning_lock import AlreadyLearning, hold_learning_lock
from mirage.database.schema.engine import Store
from tests.support.patient import wait_until

_HOLD = """
import sys, time
from mirage.database.learning.learning_lock import hold_learning_lock
from mirage.database.schema.engine import Store
with hold_learning_lock(Store(sys.argv[1])):
    print("held", flush=True)
    time.sleep(3600)
"""


def is_free(url: str) -> bool:
    with closing(Store(url)) as store:
        try:
            with hold_learning_lock(store):
                return True
        except AlreadyLearning:
            return False


def test_a_second_run_is_refused_and_hears_who_learns(database_url: str, store: Store) -> None:
    with (
        hold_learning_lock(store),
        closing(Store(database_url)) as second,
        pytest.raises(AlreadyLearning) as refused,
        hold_learning_lock(second),
    ):
        pass
    holder = f"mirage learn, process {os.getpid()} on {socket.gethostname()}"
    assert str(refused.value) == f"another run of learning goes on ({holder}): wait for its end"
    assert is_free(database_url)


def test_a_fault_of_the_run_gives_the_lock_back(database_url: str, store: Store) -> None:
    with pytest.raises(ZeroDivisionError), hold_learning_lock(store):
        raise ZeroDivisionError
    assert is_free(database_url)


def test_a_run_that_is_killed_gives_the_lock_back(database_url: str) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, database_url], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert not is_free(database_url)
    finally:
        holder.kill()
        holder.communicate()
    wait_until(lambda: is_free(database_url))


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_runs_of_other_databases_of_the_server_go_on(store: Store, empty_database_url: str) -> None:
    with hold_learning_lock(store):
        assert is_free(empty_database_url)

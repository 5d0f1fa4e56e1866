"""What asking Slurm has cost, added up by the hour, whichever process tells it."""

import pytest

from mirage.database.operations import telemetry
from mirage.database.schema.engine import Store
from mirage.reports import service_status
from mirage.reports.service_status import TickRecorder
from mirage.slurm.clients.call_stats import CallStats

HOUR = 3600
NOW = 1_800_000_000 + 600


def tell(store: Store, teller: TickRecorder, at: int, error: str = "") -> None:
    with store.begin() as tx:
        teller.record_tick(tx, 1, at, took_s=0.5, error=error)


def ask(meter: CallStats, command: str, times: int = 1, *, fails: bool = False) -> None:
    for _ in range(times):
        try:
            with meter.count_call(command):
                assert not fails
        except AssertionError:
            continue


def test_calls_are_counted_once_however_often_they_are_told(lab_store: Store) -> None:
    meter = CallStats()
    teller = TickRecorder("host:1", meter.get_usage)
    ask(meter, "squeue", 3)
    tell(lab_store, teller, NOW)
    ask(meter, "squeue", 2)
    ask(meter, "sacct", fails=True)
    tell(lab_store, teller, NOW + HOUR)
    tell(lab_store, teller, NOW + HOUR + 60)
    tell(lab_store, TickRecorder("host:2", None), NOW + HOUR + 60)
    with lab_store.read() as tx:
        found = service_status.read_polling_cost(tx, 1, now=NOW + HOUR + 120, hours=24)
    assert {cost.command: (cost.calls, cost.failures) for cost in found.commands} == {
        "squeue": (5, 0),
        "sacct": (1, 1),
    }
    hour = NOW - NOW % HOUR
    assert found.hours == ((hour, 3), (hour + HOUR, 3))
    assert found.total.a_minute == pytest.approx(6 / ((NOW + HOUR + 120 - hour) / 60))


def test_another_process_begins_its_own_count(lab_store: Store) -> None:
    for _ in range(2):
        meter = CallStats()
        ask(meter, "squeue", 4)
        tell(lab_store, TickRecorder("host:1", meter.get_usage), NOW)
    with lab_store.read() as tx:
        assert service_status.read_polling_cost(tx, 1, now=NOW, hours=1).total.calls == 8


def test_hours_go_after_a_month(lab_store: Store) -> None:
    for at in (NOW, NOW + telemetry.KEPT_S + 2 * HOUR):
        meter = CallStats()
        ask(meter, "squeue")
        tell(lab_store, TickRecorder("host:1", meter.get_usage), at)
    with lab_store.read() as tx:
        assert len(telemetry.sum_calls_by_hour(tx, 1, 0)) == 1


def test_a_failed_round_keeps_when_the_last_good_one_was(lab_store: Store) -> None:
    teller = TickRecorder("host:1", None)
    tell(lab_store, teller, NOW)
    tell(lab_store, teller, NOW + 60, error="Slurm does not answer")
    with lab_store.read() as tx:
        status = service_status.read_status(tx, 1)
    assert status.tick is not None
    assert (status.tick.at, status.tick.good_at) == (NOW + 60, NOW)
    assert status.tick.error == "Slurm does not answer"
    assert status.database_bytes > 100_000
    assert status.schema == status.schema_known

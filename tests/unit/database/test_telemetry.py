"""What the service keeps on itself, in both databases."""

from mirage.database.operations import admin_overrides, clusters, telemetry
from mirage.database.operations.admin_overrides import LimitOverride, PulledSwitch
from mirage.database.operations.telemetry import CallCounts, WorkerTick
from mirage.database.schema.engine import Store

HOUR, NOON = 3600, 1_800_000_000


def test_calls_add_up_by_hour_and_by_command(store: Store) -> None:
    with store.begin() as tx:
        lab, other = (clusters.ensure_cluster(tx, name) for name in ("lab", "other"))
        for at, calls in ((NOON, 3), (NOON + 60, 2), (NOON + HOUR, 1)):
            made = {"squeue": CallCounts(calls=calls, failures=1, seconds=0.5)}
            telemetry.add_calls(tx, lab, at, made)
        telemetry.add_calls(
            tx, other, NOON, {"sinfo": CallCounts(calls=9, failures=0, seconds=9.0)}
        )
        telemetry.add_calls(tx, lab, NOON, {})
    with store.read() as tx:
        assert telemetry.sum_calls_by_command(tx, lab, NOON) == {
            "squeue": CallCounts(calls=6, failures=3, seconds=1.5)
        }
        assert telemetry.sum_calls_by_hour(tx, lab, NOON) == [(NOON, 5), (NOON + HOUR, 1)]
        assert telemetry.sum_calls_by_hour(tx, lab, NOON + HOUR) == [(NOON + HOUR, 1)]


def test_a_tick_replaces_the_one_before_and_keeps_when_all_was_good(store: Store) -> None:
    with store.begin() as tx:
        lab = clusters.ensure_cluster(tx, "lab")
        assert telemetry.find_last_tick(tx, lab) is None
        for at, good_at, error in ((NOON, NOON, ""), (NOON + 60, None, "no answer")):
            tick = WorkerTick(
                at=at, took_s=0.5, good_at=good_at, holder="h:1", error=error, version="1"
            )
            telemetry.record_tick(tx, lab, tick)
        found = telemetry.find_last_tick(tx, lab)
    assert found is not None
    assert (found.at, found.good_at, found.error) == (NOON + 60, NOON, "no answer")


def test_the_lease_and_the_database(store: Store) -> None:
    with store.begin() as tx:
        lab = clusters.ensure_cluster(tx, "lab")
        assert telemetry.find_lease(tx, lab) is None
        clusters.take_lease(tx, lab, "h:1", now=NOON, ttl_s=180)
        assert telemetry.find_lease(tx, lab) == ("h:1", NOON + 180)
        assert telemetry.measure_size_bytes(tx) > 100_000
        assert telemetry.read_database_version(tx).startswith(("SQLite 3", "PostgreSQL 1"))


def test_who_pulled_first_by_a_way_stays(store: Store) -> None:
    with store.begin() as tx:
        lab = clusters.ensure_cluster(tx, "lab")
        for by, at in (("root", NOON), ("ada", NOON + 60)):
            admin_overrides.pull_switch(
                tx, lab, PulledSwitch(way="rest", by=by, at=at, stopped=("", "gpu"))
            )
        admin_overrides.pull_switch(
            tx, lab, PulledSwitch(way="file", by="file", at=NOON - 60, stopped=())
        )
        assert [(each.way, each.by) for each in admin_overrides.list_pulled_switches(tx, lab)] == [
            ("file", "file"),
            ("rest", "root"),
        ]
        admin_overrides.release_switches(tx, lab, ["file", "command"])
        (left,) = admin_overrides.list_pulled_switches(tx, lab)
        assert (left.way, left.stopped) == ("rest", ("", "gpu"))


def test_limits_are_set_over_and_unset(store: Store) -> None:
    with store.begin() as tx:
        lab = clusters.ensure_cluster(tx, "lab")
        for value in (3.0, 4.5):
            new = LimitOverride(value=value, by="root", at=NOON)
            admin_overrides.set_limit_override(tx, lab, "max_lead_h", new)
        assert admin_overrides.list_limit_overrides(tx, lab) == {"max_lead_h": new}
        admin_overrides.unset_limit_override(tx, lab, "max_lead_h")
        assert admin_overrides.list_limit_overrides(tx, lab) == {}

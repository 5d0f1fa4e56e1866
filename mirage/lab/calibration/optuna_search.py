"""A search for good numbers with Optuna's tree of Parzen estimators: extra `calibrate`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mirage.errors import InputError
from mirage.lab.calibration.search_space import SearchSetting, SearchTrial


def search_settings(
    settings: Sequence[SearchSetting],
    score: Callable[[Mapping[str, int]], float],
    *,
    trials: int,
    seed: int,
    first: Mapping[str, int],
) -> list[SearchTrial]:
    """Search for the numbers with the highest score. Return the trials, of which `first` is the
    first.

    The same seed gives the same trials. Raises InputError if Optuna is not installed.
    """
    optuna = _import_optuna()
    sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, n_startup_trials=trials // 4)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.enqueue_trial(
        {
            setting.name: min(max(first[setting.name], setting.low), setting.high)
            for setting in settings
        }
    )
    finished_trials: list[SearchTrial] = []

    def run_trial(trial: Any) -> float:
        values = {
            setting.name: int(trial.suggest_int(setting.name, setting.low, setting.high, log=True))
            for setting in settings
        }
        finished_trials.append(SearchTrial(values=values, score=score(values)))
        return finished_trials[-1].score

    study.optimize(run_trial, n_trials=trials)
    return finished_trials


def _import_optuna() -> Any:
    try:
        import optuna  # noqa: PLC0415  a second to import, and not always installed
    except ImportError:
        raise InputError(
            "calibrating needs Optuna: pip install 'mirage-provisioner[calibrate]'"
        ) from None
    # What a trial raises reaches our caller: Optuna's own account of it would be a second one.
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna

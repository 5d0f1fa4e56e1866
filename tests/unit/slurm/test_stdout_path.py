"""Where output goes, by the command line alone."""

import pytest

from mirage.slurm.text.stdout_path import resolve_stdout_path


@pytest.mark.parametrize(
    ("line", "file", "told"),
    [
        ("", "slurm-42.out", False),
        ("sbatch job.sh", "slurm-42.out", False),
        ("sbatch -o run-%j.log job.sh", "run-42.log", True),
        ("sbatch -orun.log job.sh", "run.log", True),
        ("sbatch --output=/scratch/%u/%A-%8j.txt job.sh", "/scratch/ada/42-00000042.txt", True),
        ("sbatch --output '%x of %%.log' job.sh", "%x of %.log", True),
        ("sbatch -o first -o second job.sh", "second", True),
        ("sbatch 'unclosed", "slurm-42.out", False),
    ],
)
def test_the_file_is_what_the_line_names(line: str, file: str, told: bool) -> None:
    assert resolve_stdout_path(line, job_id=42, user="ada") == (file, told)

"""GPUs as gres.conf lets them be written, and as sinfo, squeue and sacct print them."""

import pytest

from mirage.errors import MalformedText
from mirage.slurm.text.gres import count_gpus


@pytest.mark.parametrize(
    ("written", "gpus"),
    [
        ("gpu", 1),
        ("gpu:3", 3),
        ("gpu:a100", 1),
        ("gpu:nvidia_h100-80gb.hbm3:4", 4),
        ("gpu:1g.10gb:7", 7),
        ("gpu:2080:2", 2),
        ("gpu:tesla:no_consume:6", 6),
        ("gpu:no_consume:5", 5),
        ("gpu:2K", 2048),
        ("gpu:k80:1m", 1 << 20),
        ("gpu:a100:4(S:0-1),gpu:v100:2(S:0,3)", 6),
        ("gpu:a100:3(IDX:0-1,5),mps:100", 3),
        ("gpu:(null):4(IDX:N/A)", 4),
        ("gres:gpu:2", 2),
        ("gres/gpu=4,gres/gpu:l40s=2", 6),
        ("craynetwork:4,shard:8,gpus:9", 0),
        ("gpu:a100:0", 0),
        ("(null)", 0),
        ("N/A", 0),
        ("", 0),
    ],
)
def test_gpus_of_all_types_together(written: str, gpus: int) -> None:
    assert count_gpus(written) == gpus


@pytest.mark.parametrize("written", ["gpu:a100:many", "gpu:a b:2", "gpu:a:b:c:4", "gpu:-1:x"])
def test_gpus_that_are_written_in_another_way_are_no_number(written: str) -> None:
    with pytest.raises(MalformedText, match=r"not GPUs as gres\.conf has them"):
        count_gpus(written)

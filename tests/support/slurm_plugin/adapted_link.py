"""A link that trains through an adapter: adapted_link.py torch|lightning|transformers.

Torch also as several ranks, under torch.distributed.run.

The model's one weight grows by one at each step and by nothing else: it counts what was kept.
"""

import importlib
import os
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import torch

STEPS, GATE = 24, 20
CHAIN = Path(os.environ["MIRAGE_DIR"])
HOME = CHAIN.parent


def main(library: str) -> None:
    sys.path.insert(0, os.environ["PLUGIN"])
    adapter = importlib.import_module(f"mirage_handover_{library}")
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    if "RANK" in os.environ:
        torch.distributed.init_process_group("gloo")
    handover: Any = None
    if os.environ.get("RANK", "0") == "0":
        handover = importlib.import_module("mirage_handover").Handover(stale_s=0.5)
    if library == "torch":
        if torch.distributed.is_initialized():
            train_as_a_rank(adapter, handover, model)
        train_plainly(adapter, handover, model)
        return
    if not handover.begin():
        return
    train = {"lightning": train_with_lightning, "transformers": train_with_transformers}[library]
    train(adapter, handover, model)
    if handover.token:
        handover.done()
        (HOME / "weight").write_text(f"{model.weight.item()}\n")


def train_as_a_rank(adapter: Any, handover: Any, model: Any) -> NoReturn:
    """Ranks leave the group, or they abort each other as they exit; and without Python's own exit,
    in which a thread of torch's now and then ends one ("terminate called", on a busy machine).
    """
    code: Any = 0
    try:
        train_plainly(adapter, handover, model)
    except SystemExit as ending:
        code = ending.code
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    os._exit(code or 0)


def train_plainly(adapter: Any, handover: Any, model: Any) -> None:
    loop = adapter.Loop(str(HOME / "model.pt"), handover)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    state = loop.begin() or {"step": 0, "model": model.state_dict()}
    model.load_state_dict(state["model"])
    for step in range(state["step"] + 1, STEPS + 1):
        (-model(torch.ones(1, 1))).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        stepped(handover, step)
        loop.step(lambda step=step: {"model": model.state_dict(), "step": step})
    loop.done()
    if handover is not None:
        (HOME / "weight").write_text(f"{model.weight.item()}\n")


def train_with_lightning(adapter: Any, handover: Any, model: Any) -> None:
    lightning = importlib.import_module("lightning.pytorch")

    class Counting(lightning.LightningModule):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def training_step(self, batch: Any, _: int) -> Any:
            return -self.model(torch.ones(1, 1)).sum()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1.0)

    class Tell(lightning.Callback):  # type: ignore[name-defined,misc]
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            stepped(handover, trainer.global_step)

    path = str(HOME / "last.ckpt")
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_steps=STEPS,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[Tell(), adapter.callback(handover, path)],
        plugins=[adapter.checkpoint_io(handover)],
    )
    data: Any = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(1000, 1)))
    trainer.fit(Counting(), data, ckpt_path=adapter.latest(path))


def train_with_transformers(adapter: Any, handover: Any, model: Any) -> None:
    transformers = importlib.import_module("transformers")

    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Any) -> dict[str, Any]:
            return {"loss": -self.model(torch.ones(1, 1)).sum()}

    class Tell(transformers.TrainerCallback):  # type: ignore[name-defined,misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            stepped(handover, state.global_step)

    trainer = transformers.Trainer(
        model=Counting(),
        args=transformers.TrainingArguments(
            output_dir=str(HOME / "out"),
            max_steps=STEPS,
            per_device_train_batch_size=1,
            learning_rate=1.0,
            lr_scheduler_type="constant",
            optim="sgd",
            max_grad_norm=0,
            weight_decay=0,
            save_strategy="no",
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
        ),
        train_dataset=[{"x": torch.zeros(1)} for _ in range(1000)],
        callbacks=[Tell(), adapter.callback(handover)],
    )
    trainer.train(resume_from_checkpoint=handover.latest())


def stepped(handover: Any, step: int) -> None:
    """Record a step. Link 1 stays at one step until it is asked, since link 2 may load for long."""
    if handover is None:  # another rank
        return
    with (CHAIN / "lines").open("a") as lines:
        lines.write(f"step {handover.token} {step}\n")
    while step == GATE and os.environ["MIRAGE_LINK"] == "1" and not handover.should_release():
        time.sleep(0.02)


if __name__ == "__main__":
    main(sys.argv[1])

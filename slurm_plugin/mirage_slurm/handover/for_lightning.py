"""The hand-over in PyTorch Lightning (`lightning` or `pytorch_lightning`, 2.x).

    handover = mirage_handover.Handover()
    if not handover.begin():
        sys.exit()
    trainer = Trainer(
        callbacks=[mirage_handover_lightning.callback(handover, "model.ckpt")],
        plugins=[mirage_handover_lightning.checkpoint_io(handover)],   # every checkpoint is fenced
    )
    trainer.fit(model, ckpt_path=mirage_handover_lightning.latest("model.ckpt"))
    if handover.token:                   # the link still has the lease: the work is finished
        handover.done()

With SLURMEnvironment give it `auto_requeue=False`: two mechanisms must not both save and requeue.
With several ranks, rank 0 alone has a Handover; the others give None.
"""

import importlib
import os


def callback(handover, path):
    """A Callback that saves to `path` and stops the fit when the lease is asked for."""

    class HandOver(_import_lightning().Callback):
        def on_train_batch_end(self, trainer, *_, **__):
            is_asked = handover is not None and handover.should_release()
            if trainer.strategy.reduce_boolean_decision(is_asked, all=False):
                trainer.save_checkpoint(path)
                is_released = handover is not None and handover.release()
                if trainer.strategy.reduce_boolean_decision(is_released, all=False):
                    trainer.should_stop = True

    return HandOver()


def checkpoint_io(handover, inner=None):
    """A CheckpointIO that makes each checkpoint current whole, and only under the lease.

    For checkpoints that are one file; sharded ones need their own name each time.
    """
    plugins = importlib.import_module(_import_lightning().__name__ + ".plugins.io")

    class FencedIO(plugins.TorchCheckpointIO):
        def save_checkpoint(self, checkpoint, path, storage_options=None):
            io = inner or super(FencedIO, self)
            with handover.checkpoint(os.fspath(path)) as name:
                io.save_checkpoint(checkpoint, name, storage_options)

    return FencedIO() if handover is not None else plugins.TorchCheckpointIO()


def latest(path):
    """Return `path` if a link has saved there, else None: as Trainer.fit expects ckpt_path."""
    return path if os.path.exists(path) else None


def _import_lightning():
    for name in ("lightning.pytorch", "pytorch_lightning"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise ImportError("mirage_handover_lightning needs lightning or pytorch_lightning")

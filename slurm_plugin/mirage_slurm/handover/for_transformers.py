"""The hand-over in Hugging Face's Trainer.

    handover = mirage_handover.Handover()
    if not handover.begin():
        sys.exit()
    trainer = Trainer(..., callbacks=[mirage_handover_transformers.callback(handover)])
    trainer.train(resume_from_checkpoint=handover.latest())
    if handover.token:                   # the link still has the lease: the work is finished
        handover.done()

The Trainer writes each checkpoint in place, in a folder of its own name: after a kill the newest
may be torn. `handover.latest()` is the newest that was complete; `get_last_checkpoint` is not.
With several ranks, rank 0 alone has a Handover; the others pass None, and get its answers by broadcast.
"""

import importlib
import os


def callback(handover):
    """A TrainerCallback that saves and stops when the lease is asked for, and never without it."""
    transformers = importlib.import_module("transformers")

    class HandOver(transformers.TrainerCallback):
        is_asked = False

        def on_step_end(self, args, state, control, **_):
            self.is_asked = _broadcast_answer(lambda: handover.should_release(), handover is None)
            if self.is_asked:
                control.should_save = True
            if control.should_save:  # the Trainer writes right after this, by itself
                _broadcast_answer(lambda: handover.check(), handover is None)
            return control

        def on_save(self, args, state, control, **_):
            folder = os.path.join(args.output_dir, "checkpoint-%d" % (state.global_step,))
            _broadcast_answer(lambda: handover.committed(folder), handover is None)
            if self.is_asked:
                self.is_asked = False
                if _broadcast_answer(lambda: handover.release(), handover is None):
                    control.should_training_stop = True
            return control

    return HandOver()


def _broadcast_answer(ask, follower):
    """Return the holder's answer on every rank. Its error is raised on every rank."""
    torch = importlib.import_module("torch")
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return None if follower else ask()
    answer = [None]
    if not follower:
        try:
            answer = [ask()]
        except Exception as error:
            answer = [error]
    distributed.broadcast_object_list(answer, src=0)
    if isinstance(answer[0], Exception):
        raise answer[0]
    return answer[0]

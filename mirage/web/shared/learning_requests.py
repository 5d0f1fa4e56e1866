"""Carries out what an admin asks of the models of the site: promote, decline, take back.

The page Admin and the API both use this module. No transaction is open meanwhile: the change of
files lies between two of them (`provision.learning.model_promoter`).
"""

from enum import StrEnum

from mirage.errors import NotFound
from mirage.provision.learning.model_promoter import Decider, ModelPromoter
from mirage.web.shared.context import ApiContext


class Verdict(StrEnum):
    """What an admin may ask for."""

    PROMOTE = "promote"
    DECLINE = "decline"
    TAKE_BACK = "take-back"


def carry_out(context: ApiContext, verdict: Verdict, model: str, *, actor: str, via: str) -> None:
    """Promote or decline the challenger, or take the champion back. The audit names the admin.

    Raises IllegalTransition if the model is not the challenger, or not the champion; InputError or
    UnfitModel if its files cannot be used; NotFound for a service without a folder of models.
    """
    promoter, decider = get_promoter(context), Decider(actor=actor, via=via)
    carry = {
        Verdict.PROMOTE: promoter.promote_challenger,
        Verdict.DECLINE: promoter.decline_challenger,
        Verdict.TAKE_BACK: promoter.take_back_champion,
    }[verdict]
    carry(model, decider=decider, now=context.clock())


def get_promoter(context: ApiContext) -> ModelPromoter:
    if context.models_dir is None:
        raise NotFound("this service has no folder of models (provision.models_dir)")
    return ModelPromoter(
        store=context.store,
        cluster_id=context.cluster_id,
        cluster=context.cluster_name,
        models_dir=context.models_dir,
        channels=context.notice_channels,
    )

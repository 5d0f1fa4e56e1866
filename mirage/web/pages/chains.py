"""The page of one chain: its links, the decisions and why, and the buttons of its owner."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import RedirectResponse

from mirage.chains import explanations, link_risks
from mirage.chains.expected_start import read_expected_start
from mirage.chains.overlap_price import describe_price
from mirage.database.chains import chains, decisions
from mirage.domain import script_turns
from mirage.domain.chain import MAX_LINKS, ChainId, ChainState
from mirage.provision.control import limit_overrides
from mirage.reports import chain_timeline as timelines
from mirage.shipped_files import load_client_module
from mirage.web import decision_text
from mirage.web.charts import chain_charts, forecast_chart
from mirage.web.pages.page_context import HEADERS, CurrentPage, PageContext
from mirage.web.shared.chain_access import ChainPath, StateRequest, get_visible_chain
from mirage.web.shared.dependencies import Context

router = APIRouter(prefix="/chains", include_in_schema=False)

_DECISIONS = 30
_LARGEST = 2**53


@router.get("/{chain_id}")
def show_chain(
    chain_id: ChainPath,
    page: CurrentPage,
    context: Context,
    link: Annotated[int | None, Query(ge=2, le=MAX_LINKS)] = None,
    before: Annotated[int | None, Query(ge=0, le=_LARGEST)] = None,
) -> Response:
    """Show a chain. `link` is the successor whose forecast is drawn.

    `before` is the number of a decision; the page then lists older decisions alone.
    """
    chain = get_visible_chain(page.tx, page.cluster_id, ChainId(chain_id), page.reader)
    links = chains.list_links(page.tx, page.cluster_id, chain.chain_id)
    rows = decisions.list_decisions(
        page.tx, page.cluster_id, chain_id=chain.chain_id, after=before, limit=_DECISIONS + 1
    )
    can_steer = page.reader.can_steer(chain, links)
    limits = limit_overrides.read_effective_limits(page.tx, page.cluster_id, context.limits)
    return page.render_page(
        "chain.html",
        title=f"Chain {chain.chain_id}",
        chain=chain,
        awaited=script_turns.find_awaited_links(chain, links),
        timeline=timelines.build_timeline(page.tx, page.cluster_id, chain, links, index=link),
        logs=timelines.list_logs(page.tx, page.cluster_id, chain, links) if can_steer else [],
        can_steer=can_steer,
        expected=read_expected_start(page.tx, page.cluster_id, chain, links, now=page.queue_at),
        own_mode=page.modes.get_shown_mode(chain, links),
        can_write=can_steer and not _is_read_only(page),
        decisions=rows[:_DECISIONS],
        older=rows[_DECISIONS - 1].id if len(rows) > _DECISIONS else None,
        before=before,
        describe_decision=decision_text.describe_decision,
        describe_position=decision_text.describe_position,
        charts=chain_charts,
        draw_course=forecast_chart.draw_forecast_course,
        get_advice=link_risks.get_advice,
        explanations=explanations,
        explain_unregistered=load_client_module("command.chain_text").explain_unregistered,
        price_reason=describe_price(chain),
        max_returns=chain.count_allowed_returns(limits.max_returns),
        allowed_overlap_s=chain.get_allowed_overlap_s(links[-1] if links else None),
    )


def _is_read_only(page: PageContext) -> bool:
    caller = getattr(page.request.state, "caller", None)
    return caller is None or caller.read_only


@router.post("/{chain_id}/pause")
def pause_chain(chain_id: ChainPath, ask: StateRequest, context: Context) -> Response:
    ask(ChainState.PAUSED)
    return _return_to_chain(context.root_path, chain_id)


@router.post("/{chain_id}/resume")
def resume_chain(chain_id: ChainPath, ask: StateRequest, context: Context) -> Response:
    ask(ChainState.ACTIVE)
    return _return_to_chain(context.root_path, chain_id)


@router.post("/{chain_id}/cancel")
def cancel_chain(chain_id: ChainPath, ask: StateRequest, context: Context) -> Response:
    ask(ChainState.CANCELLED)
    return _return_to_chain(context.root_path, chain_id)


def _return_to_chain(root_path: str, chain_id: str) -> Response:
    return RedirectResponse(f"{root_path}/chains/{chain_id}", 303, headers=HEADERS)

"""The parts of a page that follow the session: fragments that poll its snapshot.

Each poll sends a few light elements with stable places and heights, and a figure only ever changes when a turn was
newly measured: a redrawn plot costs the browser 150 ms, which would be heard in the next reply. (An unchanged figure
sent again costs nothing there: the browser compares it and leaves the drawing alone.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from pipeline.events import Snapshot, TurnView
from pipeline.timeline import Budget
from pipeline.ui import bubbles, charts, controls
from pipeline.ui.resources import Visit, all_turns
from pipeline.ui.words import say

POLL_S = 0.5
TALK_HEIGHT = 460
ROWS = 6  # turns in the figure beside the conversation
_FIGURES = "figures"


def theme() -> str:
    """ "light" or "dark", whichever the visitor's browser shows."""
    kind = st.context.theme.type
    return kind if kind in ("light", "dark") else "light"


def figure(name: str, turns: tuple[TurnView, ...], budget: Budget, lang: str, make: Callable[[], Any]) -> Any:
    """The figure `name`, made anew only when what it shows has changed: a turn ended, language, theme or budget."""
    kept: dict[str, tuple[Any, Any]] = st.session_state.setdefault(_FIGURES, {})
    key = (sum(t.ended for t in turns), turns[-1].number if turns else 0, lang, theme(), budget)
    if name not in kept or kept[name][0] != key:
        kept[name] = (key, make())
    return kept[name][1]


def call_words(snapshot: Snapshot, phase: str, lang: str) -> str:
    """The state of the call in words: what the session hears says more than what the transport claims."""
    last = snapshot.turns[-1] if snapshot.turns else None
    if phase == "connecting" and not snapshot.connected:
        return say("call.connecting", lang)
    if "sample.call" in st.session_state:
        return say("call.sample", lang)
    if phase == "connected" and not snapshot.connected:
        return say("call.level-none", lang)
    if not snapshot.connected:
        return say("call.idle", lang)
    if snapshot.speaking:
        return say("call.hearing", lang)
    if last is not None and not last.ended:
        return say("call.answering", lang)
    return say("call.listening", lang)


@st.fragment(run_every=POLL_S)
def call_status(visit: Visit, phase: str, lang: str) -> None:
    """State and level, beside START. On every page, so it also says that the page is alive."""
    snapshot = visit.poll(active=phase == "connected")
    st.html(bubbles.meter(snapshot, call_words(snapshot, phase, lang), lang))


@st.fragment(run_every=POLL_S)
def conversation(visit: Visit, lang: str) -> None:
    """What is said, and where the milliseconds went."""
    snapshot = visit.after_the_gap()
    settings = controls.current()
    turns, budget, rules = all_turns(snapshot), controls.budget(settings), controls.rules(settings)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        st.subheader(say("talk.heading", lang), anchor=False)
        with st.container(height=TALK_HEIGHT, border=True, key="talk", autoscroll=True):
            st.html(bubbles.conversation(turns, budget, lang, snapshot.connected, rules))
        st.html(bubbles.notices(snapshot.notices, snapshot.at, lang))
    with right:
        st.subheader(say("fig.heading", lang), anchor=False)
        st.html(bubbles.figures(turns, budget, lang))
        _waterfall(turns, budget, lang)
    st.html(bubbles.health(snapshot, lang))


def _waterfall(turns: tuple[TurnView, ...], budget: Budget, lang: str) -> None:
    known = charts.measured(turns)
    with st.container(key="waterfall", height=charts.waterfall_height(ROWS) + 8, border=False):
        if not known:
            st.html(f'<div class="ta-empty"><p>{say("fig.empty", lang)}</p></div>')
            return
        made = figure(
            "waterfall", turns, budget, lang, lambda: charts.waterfall(turns, budget, lang, theme(), last=ROWS)
        )
        st.plotly_chart(made, key="waterfall-figure", config=charts.CONFIG, alt=say("fig.alt-waterfall", lang))


def explain_figures(lang: str) -> None:
    """The meaning of the figures, in a fold outside of the polling part, so that it stays as the visitor left it."""
    with st.expander(say("health.help", lang)):
        for key in ("underruns", "false", "drafts", "each", "hits", "tokens", "wasted", "cpu", "late", "dropped"):
            st.text(f"{say(f'health.{key}', lang)}: {say(f'health.{key}-help', lang)}")

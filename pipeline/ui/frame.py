"""What stands around every page: language, warm-up, the call. Rendered by the entry script before the page, so that
moving between pages ends nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st
from streamlit.navigation.page import Page

from pipeline.errors import TurnaroundError
from pipeline.settings import Settings
from pipeline.ui import bubbles, controls, live, missing, resources, webrtc
from pipeline.ui.resources import Loading, Visit
from pipeline.ui.switchboard import Microphone
from pipeline.ui.words import LANGUAGES, say

if TYPE_CHECKING:
    from pipeline.stock import Shortage

STYLE = Path(__file__).resolve().parents[2] / "assets" / "style.css"
_LONG_S = 3.0  # after which the page says that it is still alive
_FIRST_WAIT_S = 0.3  # engines that are loaded already, or nearly so, cause no flash of a progress bar
_GENERATION = "call.generation"
_FRAMED = "framed"
_ENGINES = "engines"


def language() -> str:
    """The language of the page: the visitor's choice, else `?lang=`, else the browser's."""
    if st.session_state.get("lang") not in LANGUAGES:
        asked = st.query_params.get("lang", "")
        browser = "zh" if (st.context.locale or "").lower().startswith("zh") else "en"
        st.session_state["lang"] = asked if asked in LANGUAGES else browser
    lang: str = st.session_state["lang"]
    return lang


def header(lang: str) -> None:
    """Name, one line of what this is, and the language switch."""
    st.html(STYLE)
    with st.container(horizontal=True, vertical_alignment="bottom", horizontal_alignment="distribute", key="head"):
        with st.container(key="head-name", gap=None):
            st.title(say("title", lang), anchor=False)
            st.caption(say("tagline", lang))
        st.segmented_control(
            say("language", lang),
            list(LANGUAGES),
            format_func=lambda code: LANGUAGES[code],
            key="lang",
            required=True,
            label_visibility="collapsed",
        )


def apply(settings: Settings) -> None:
    """Live settings: the session takes them at once. TurnaroundError when it cannot."""
    visit: Visit | None = st.session_state.get("visit")
    if visit is not None and not visit.closed:
        visit.session.apply(settings)


def reconnect(_settings: Settings) -> None:
    """Settings that need a new session: end this one, and with it the call."""
    resources.end_visit()
    st.session_state[_GENERATION] = st.session_state.get(_GENERATION, 0) + 1
    st.session_state["set.rerun"] = True


def ready(settings: Settings, lang: str, page: Page) -> Visit | None:
    """This visitor's session, or None after having shown why there is none yet: warm-up, an error, no place."""
    problem = controls.profile_problem()
    if problem is not None:
        _no_profile(problem, settings, lang)
        return None
    loading = resources.loading(settings)
    loading.wait(_FIRST_WAIT_S)
    short = resources.shortages(settings) if loading.shortages else ()
    if loading.shortages and not short:  # what was missing has been fetched meanwhile
        resources.retry(settings)
        loading = resources.loading(settings)
    if loading.engines is None:
        _warm_up(loading, short, settings, lang, brief=wants_no_visit(page))
        return None
    try:
        visit = resources.visit(loading.engines, settings)
    except TurnaroundError as error:
        st.html(bubbles.problem(error, lang))
        st.button(say("warm.retry", lang), key="visit.retry", icon=":material/refresh:")
        return None
    if visit.closed:
        st.info(say("visit.idle-closed", lang))
        st.button(say("visit.again", lang), key="visit.again", type="primary", on_click=reconnect, args=(settings,))
        return None
    return visit


def navigation(lang: str) -> Page:
    """The pages of this app; the one that the visitor asked for."""
    st.session_state[_FRAMED] = True
    names = {key: say(f"page.{key}", lang) for key in ("conversation", "latency", "engines")}
    return st.navigation(
        [
            st.Page("pages/conversation.py", title=names["conversation"], icon=":material/forum:", default=True),
            st.Page("pages/latency.py", title=names["latency"], icon=":material/timer:", url_path="latency"),
            st.Page("pages/engines.py", title=names["engines"], icon=":material/extension:", url_path=_ENGINES),
        ],
        position="top",
    )


def wants_no_visit(page: Page) -> bool:
    """Whether a page has something to show while there is no session: the one that says how to get one."""
    return page.url_path == _ENGINES


def framed() -> None:
    """For pages: go on only below the entry script.

    The first request a server gets may be for a page: a pages/ folder means the old kind of multipage app to Streamlit
    until st.navigation was called once, and it runs the page without its entry script. Then call it, and begin again.
    """
    if _FRAMED not in st.session_state:
        navigation(language())
        st.rerun()


def this_visit() -> Visit:
    """The visit that the entry script has made ready; for pages."""
    framed()
    visit: Visit = st.session_state["visit"]
    return visit


def _warm_up(loading: Loading, short: tuple[Shortage, ...], settings: Settings, lang: str, brief: bool) -> None:
    st.button(say("call.start", lang), key="start.not-yet", disabled=True)
    if loading.error is None:
        _progress(loading, lang)
        return
    if short:
        (missing.in_short if brief else missing.engines)(short, lang)
    else:
        st.subheader(say("warm.failed", lang), anchor=False)
        if loading.what:
            st.caption(say("miss.while", lang, engine=loading.what))
        st.html(bubbles.problem(loading.error, lang))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            say("warm.retry", lang),
            key="warm.retry",
            type="primary",
            icon=":material/refresh:",
            on_click=resources.retry,
            args=(settings,),
        )
        missing.ways_out(settings, lang, reconnect)


def _no_profile(problem: TurnaroundError, settings: Settings, lang: str) -> None:
    st.button(say("call.start", lang), key="start.not-yet", disabled=True)
    st.subheader(say("profile.bad", lang), anchor=False)
    st.html(bubbles.problem(problem, lang))
    with st.container(horizontal=True, vertical_alignment="center"):
        missing.ways_out(settings, lang, reconnect, bad_profile=True)


@st.fragment(run_every=0.3)
def _progress(loading: Loading, lang: str) -> None:
    st.progress(loading.share, text=say("warm.title", lang))
    # Engines name their files; a name is text, not markup.
    st.text(loading.what or " ")
    if loading.seconds >= _LONG_S:
        st.text(say("warm.elapsed", lang, what=loading.what or "...", s=int(loading.seconds)))
    st.caption(say("warm.wait", lang))
    if loading.done:
        st.rerun()


def call(visit: Visit, settings: Settings, lang: str) -> None:
    """START and STOP, the level of the microphone, the state of the connection in words."""
    with st.container(key="call", border=True):
        left, right = st.columns([2, 3], vertical_alignment="center")
        with left:
            state = _streamer(visit, settings, lang)
        with right:
            phase = str(state.phase) if state is not None else "idle"
            live.call_status(visit, phase, lang)
            if state is None:
                return
            if state.reason is not None:
                st.warning(say(f"call.{state.reason}", lang), icon=":material/mic_off:")
            elif phase == "idle":
                st.caption(say("call.before-start", lang))


def _streamer(visit: Visit, settings: Settings, lang: str) -> webrtc.CallState | None:
    """The state of the call, or None after having shown why there can be none."""

    def microphone() -> Microphone:
        return visit.microphone

    try:
        return webrtc.call(
            microphone,
            settings,
            words=webrtc.WORDS[lang],
            on_ended=visit.hung_up,
            key=f"call-{st.session_state.get(_GENERATION, 0)}",
        )
    except TurnaroundError as error:
        st.html(bubbles.problem(error, lang))
        return None

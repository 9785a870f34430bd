"""What stands in place of a conversation when engines are missing: which, why, how to get them, another choice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from pipeline import profiles
from pipeline.settings import Settings, tunables
from pipeline.ui import bubbles, controls
from pipeline.ui.words import say

if TYPE_CHECKING:
    from pipeline.stock import Lack, Shortage

_ENGINE_SETTINGS = ("vad", "turn_model", "asr", "llm", "tts")


def engines(short: tuple[Shortage, ...], lang: str) -> None:
    """Every engine that cannot start, with all it lacks."""
    st.subheader(say("miss.heading", lang), anchor=False)
    st.caption(say("miss.about", lang))
    for one in short:
        with st.container(border=True, key=f"miss-{one.kind.value}"):
            st.html(bubbles.missing_engine(say(f"stage.{one.kind.value}", lang), one.engine))
            lacks(one.lacks, lang)


def lacks(short: tuple[Lack, ...], lang: str) -> None:
    """What an engine lacks, and for each the line that brings it, ready to be copied."""
    for lack in short:
        st.html(bubbles.lack(lack.code, lack.what, lang))
        st.code(lack.how, language=None, wrap_lines=True)


def in_short(short: tuple[Shortage, ...], lang: str) -> None:
    """Only their names: above the page that tells the rest."""
    named = ", ".join(f"{one.engine} ({say(f'stage.{one.kind.value}', lang)})" for one in short)
    with st.container(key="miss-short"):
        st.warning(f"{say('miss.heading', lang)}: {named}", icon=":material/extension_off:")


def same(one: Settings, other: Settings) -> bool:
    """Whether both name the same engines."""
    return all(getattr(one, name) == getattr(other, name) for name in _ENGINE_SETTINGS)


def ways_out(settings: Settings, lang: str, reconnect: controls.Apply, bad_profile: bool = False) -> None:
    """The embedded engines, if they are not the ones that failed; and the page about engines."""
    if bad_profile or not same(settings, profiles.read_profile(profiles.DEFAULT)):
        st.button(
            say("miss.embedded", lang),
            key="use.embedded",
            icon=":material/swap_horiz:",
            on_click=use,
            args=(profiles.DEFAULT, reconnect),
        )
    st.page_link("pages/engines.py", label=say("miss.page", lang), icon=":material/extension:")


def use(profile: str, reconnect: controls.Apply) -> None:
    """What a profile says of engines, and whatever else it changes; the visitor's other settings stay."""
    wanted, plain, now = profiles.read_profile(profile), Settings(), controls.current()
    names = [t.name for t in tunables() if t.group == "engines" or getattr(wanted, t.name) != getattr(plain, t.name)]
    settings = now.changed(**{name: getattr(wanted, name) for name in names})
    controls.take(settings, begun=wanted)
    reconnect(settings)

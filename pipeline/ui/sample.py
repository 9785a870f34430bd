"""A caller out of a file: one of the bundled clips, or the visitor's own, through the very same session."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from pipeline.errors import TurnaroundError
from pipeline.settings import Settings
from pipeline.ui import bubbles
from pipeline.ui.resources import Visit
from pipeline.ui.switchboard import SampleCall, as_wav
from pipeline.ui.words import say

if TYPE_CHECKING:
    from pipeline.ports import Samples

FOLDER = Path(__file__).resolve().parents[2] / "assets" / "callers"
LARGEST_MB = 20
_CALL, _PROBLEM, _HEARD = "sample.call", "sample.problem", "sample.heard"


@dataclass(frozen=True, slots=True)
class Caller:
    """One bundled clip."""

    file: str
    lang: str
    kind: str
    text: str

    def label(self, lang: str) -> str:
        """What is said, and what is special about it."""
        extra = [say(f"lang.{self.lang}", lang)] if self.lang != "en" else []
        kind = say(f"kind.{self.kind}", lang)
        extra += [kind] if kind else []
        return self.text + (f" ({', '.join(extra)})" if extra else "")


@cache
def callers(folder: Path = FOLDER) -> tuple[Caller, ...]:
    """The bundled clips in the order of their manifest."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return tuple(Caller(c["file"], c["lang"], c["kind"], c["text"]) for c in manifest["clips"])


def section(visit: Visit, settings: Settings, lang: str) -> None:
    """Choose a clip, play it, follow it, hear what came of it."""
    st.subheader(say("sample.heading", lang), anchor=False)
    st.caption(say("sample.about", lang))
    running = _CALL in st.session_state
    left, right = st.columns(2)
    with left:
        _bundled(visit, settings, lang, running)
    with right:
        _own(visit, lang, running)
    if running:
        _follow(visit, lang)
    _outcome(lang)


def _bundled(visit: Visit, settings: Settings, lang: str, running: bool) -> None:
    choices = callers()
    index = st.selectbox(
        say("sample.choose", lang),
        range(len(choices)),
        format_func=lambda i: choices[i].label(lang),
        key="sample.which",
    )
    caller = choices[index or 0]
    _warn_language(caller, settings, lang)
    st.button(
        say("sample.play", lang),
        key="sample.play",
        type="primary",
        icon=":material/play_arrow:",
        disabled=running,
        on_click=_play,
        args=(visit, FOLDER / caller.file),
    )
    st.caption(say("sample.origin", lang))


def _warn_language(caller: Caller, settings: Settings, lang: str) -> None:
    """Say beforehand that an engine does not know the caller's language."""
    from pipeline.engines.registry import Kind, row

    known = row(Kind.ASR, settings.asr).languages
    if caller.lang in known or "any" in known:
        return
    names = [say(f"lang.{k}", lang) for k in known]
    spoken = say(f"lang.{caller.lang}", lang)
    joined = ("、" if lang == "zh" else ", ").join(names)
    st.warning(say("sample.language", lang, spoken=spoken, engine=settings.asr, known=joined))


def _own(visit: Visit, lang: str, running: bool) -> None:
    file = st.file_uploader(
        say("sample.upload", lang),
        type=["wav", "flac", "ogg"],
        help=say("sample.upload-help", lang, mb=LARGEST_MB),
        max_upload_size=LARGEST_MB,
        key="sample.file",
        on_change=_forget,
    )
    st.button(
        say("sample.play-own", lang),
        key="sample.play-own",
        icon=":material/play_arrow:",
        disabled=running or file is None,
        on_click=_play_own,
        args=(visit,),
    )


def _forget() -> None:
    """Another file: what was said of the one before is over."""
    for key in (_PROBLEM, _HEARD):
        st.session_state.pop(key, None)


def _play_own(visit: Visit) -> None:
    # Not an argument of the button: that would be the file of the run before, when it is pressed quickly.
    file = st.session_state.get("sample.file")
    if file is not None:
        _play(visit, file.getvalue())


def _play(visit: Visit, source: Path | bytes) -> None:
    """Read the clip and put its caller on the line; what is wrong with the file is kept to be shown."""
    from pipeline.audio import read_clip

    state = st.session_state
    _forget()
    try:
        clip: Samples = read_clip(source)
    except TurnaroundError as error:
        state[_PROBLEM] = error
        return
    turns = visit.session.snapshot().turns
    state[_CALL] = SampleCall(visit.microphone, clip, turns[-1].number if turns else 0)


def _stop() -> None:
    call: SampleCall | None = st.session_state.pop(_CALL, None)
    if call is not None:
        call.stop()


@st.fragment(run_every=0.5)
def _follow(visit: Visit, lang: str) -> None:
    """Poll until the reply has ended. Rendered only while a caller is on the line."""
    call: SampleCall | None = st.session_state.get(_CALL)
    if call is None:
        return
    over = call.step(visit.poll(active=True))
    st.info(say("sample.running-call" if call.in_call else "sample.running", lang), icon=":material/call:")
    if not call.in_call:
        st.button(say("sample.stop", lang), key="sample.stop", icon=":material/stop:", on_click=_stop)
    if over:
        if not call.in_call:
            recording = call.recording()
            st.session_state[_HEARD] = None if recording is None else as_wav(recording)
        st.session_state.pop(_CALL, None)
        st.rerun()


def _outcome(lang: str) -> None:
    state = st.session_state
    if _PROBLEM in state:
        st.html(bubbles.problem(state[_PROBLEM], lang))
    if _HEARD not in state:
        return
    if state[_HEARD] is None:
        st.info(say("sample.silent", lang))
        return
    st.caption(say("sample.done", lang))
    st.audio(state[_HEARD], format="audio/wav", autoplay=True)

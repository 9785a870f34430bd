"""The call: START and STOP, and everything WebRTC behind one function that a page test replaces.

`call` is rendered by the entry script on every run and every page, before anything that may stop the script: the
component then stays mounted while the pages change, and the connection with it.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import streamlit as st
import streamlit.components.v1 as components
from streamlit_webrtc import WebRtcMode, create_audio_sink_track, webrtc_streamer
from streamlit_webrtc.config import AudioHTMLAttributes, Translations
from streamlit_webrtc.webrtc import SignallingTimeoutError

from pipeline.settings import Settings
from pipeline.transport.install import Installed, install, keep_call_across_runs
from pipeline.transport.line import Line, Visit

log = logging.getLogger(__name__)

ICE_VARIABLE = "TURNAROUND_ICE_SERVERS"
ICE_SECRET = "ice_servers"
_LINE, _SINK, _REPORT = "turnaround-line", "turnaround-microphone", "turnaround-probe-report"
_probe = components.declare_component("turnaround_probe", path=str(Path(__file__).parent / "probe"))

# The component's own words; its keys are streamlit-webrtc's Translations.
WORDS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "en": MappingProxyType(
            {
                "start": "START",
                "stop": "STOP",
                "select_device": "Choose microphone",
                "media_api_not_available": "This browser offers no microphone here",
                "device_ask_permission": "Please allow the page to use your microphone",
                "device_not_available": "The microphone is not available",
                "device_access_denied": "The microphone was refused",
                "mute_microphone": "Mute",
                "unmute_microphone": "Unmute",
                "select_microphone": "Microphone",
            }
        ),
        "zh": MappingProxyType(
            {
                "start": "开始",
                "stop": "停止",
                "select_device": "选择麦克风",
                "media_api_not_available": "此浏览器在这里无法使用麦克风",
                "device_ask_permission": "请允许本页面使用麦克风",
                "device_not_available": "麦克风不可用",
                "device_access_denied": "麦克风权限被拒绝",
                "mute_microphone": "静音",
                "unmute_microphone": "取消静音",
                "select_microphone": "麦克风",
            }
        ),
    }
)


class Phase(StrEnum):
    IDLE = "idle"  # START has not been pressed, or STOP has
    CONNECTING = "connecting"
    CONNECTED = "connected"
    FAILED = "failed"  # `reason` says why


class Reason(StrEnum):
    """Why there is no call. The page's words for each are in ui/words.py."""

    INSECURE = "insecure"  # http, and not localhost: the browser has no microphone for the page
    REFUSED = "refused"  # the visitor or a policy said no
    NONE = "none"  # no microphone is connected
    BUSY = "busy"  # another program has it
    UNREACHABLE = "unreachable"  # no way through the network: a TURN server is needed
    LOST = "lost"  # it was connected
    TIMEOUT = "timeout"  # the server did not answer the offer in time
    FAILED = "failed"  # anything else the browser said


@dataclass(frozen=True, slots=True)
class CallState:
    phase: Phase
    reason: Reason | None
    downlink_ms: float | None  # network to ear, by the browser's statistics; None until it was measured
    installed: Installed


def call(
    session_for: Callable[[], Visit],
    settings: Settings,
    words: Mapping[str, str] = WORDS["en"],
    on_ended: Callable[[Any], None] | None = None,
    key: str = "call",
) -> CallState:
    """Render START/STOP and carry the sound of one visitor.

    `session_for` is asked once a connection, on the script's thread, when START was pressed. `on_ended` is told, on a
    thread of its own, the session whose microphone ended: STOP, a closed tab or a lost connection.
    TurnaroundError TRANSPORT_UNTESTED when the tuned transport does not fit the installed libraries.
    """
    installed = install(settings)
    line = _line(on_ended)
    _watch_browser(line)
    opened = _live(key)
    if opened:
        line.open(session_for, settings.out_ptime_ms)
    elif line.track is not None:
        line.closed(line.track)
    if key in st.session_state:
        keep_call_across_runs(st.session_state[key])
    timed_out = False
    try:
        _streamer(line, settings, words, key)
    except SignallingTimeoutError:
        log.warning("the offer was not answered in time")
        timed_out = True
    return _state(key, installed, timed_out)


def _line(on_ended: Callable[[Any], None] | None) -> Line:
    line: Line = st.session_state.setdefault(_LINE, Line())
    line.on_ended = on_ended
    return line


def _live(key: str) -> bool:
    # streamlit-webrtc updates its context before the script runs, so an offer is seen in the run that answers it.
    context = st.session_state.get(key)
    return context is not None and (context.state.playing or context.state.signalling)


def _streamer(line: Line, settings: Settings, words: Mapping[str, str], key: str) -> None:
    # A sink of its own for each key: one that another connection has not let go of would refuse this one's track.
    sink = create_audio_sink_track(line.heard, key=f"{_SINK}-{key}", on_ended=partial(line.closed, line.track))
    webrtc_streamer(
        key=key,
        mode=WebRtcMode.SENDRECV,
        rtc_configuration=rtc_configuration(),
        media_stream_constraints=constraints(settings),
        source_audio_track=line.track,
        sink_audio_track=sink,
        sendback_video=False,
        audio_html_attrs=AudioHTMLAttributes(autoPlay=True, controls=True),
        translations=cast(Translations, dict(words)),
    )


def constraints(settings: Settings) -> dict[str, Any]:
    """What is asked of the browser's microphone. Headphones need no echo cancellation."""
    audio = {"echoCancellation": not settings.headphones, "noiseSuppression": True, "autoGainControl": True}
    return {"audio": audio, "video": False}


def rtc_configuration() -> dict[str, Any]:
    """ICE servers out of the environment, else the secrets, else none: none are needed on localhost or a plain LAN.

    The variable holds JSON: a list of servers, or a whole RTCConfiguration. ValueError when it is neither.
    """
    text = os.environ.get(ICE_VARIABLE, "").strip()
    if text:
        return parse_ice(text)
    if st.secrets.load_if_toml_exists() and ICE_SECRET in st.secrets:
        return {"iceServers": [dict(server) for server in st.secrets[ICE_SECRET]]}
    return {"iceServers": []}


def parse_ice(text: str) -> dict[str, Any]:
    """`[{"urls": ...}, ...]` or `{"iceServers": [...], ...}` as an RTCConfiguration."""
    try:
        given = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{ICE_VARIABLE} is not JSON: {error}") from None
    configuration = {"iceServers": given} if isinstance(given, list) else given
    servers = configuration.get("iceServers") if isinstance(configuration, dict) else None
    if not isinstance(servers, list) or not all(isinstance(s, dict) and "urls" in s for s in servers):
        raise ValueError(f'{ICE_VARIABLE} holds a list of {{"urls": ...}} or an object with "iceServers"')
    return dict(configuration)


@st.fragment
def _watch_browser(line: Line) -> None:
    """The probe, in a fragment: its word costs a run of these lines, not of the page."""
    report = _probe(key="turnaround-probe", default=None) or {}
    if line.visit is not None and report.get("downlink_ms") is not None:
        line.visit.downlink(report["downlink_ms"])
    known = st.session_state.get(_REPORT, {})
    if report and report != known:
        st.session_state[_REPORT] = report
        if report.get("reason") != known.get("reason"):
            st.rerun()  # the page shows the reason


def _state(key: str, installed: Installed, timed_out: bool) -> CallState:
    report = st.session_state.get(_REPORT, {})
    told = Reason(report["reason"]) if report.get("reason") else None
    context = st.session_state.get(key)
    reason: Reason | None = None
    if context is not None and context.state.playing:
        phase = Phase.CONNECTED
    elif timed_out:
        phase, reason = Phase.FAILED, Reason.TIMEOUT
    elif context is not None and context.state.signalling and told is not Reason.UNREACHABLE:
        phase = Phase.CONNECTING
    elif told is not None:
        phase, reason = Phase.FAILED, told
    else:
        phase = Phase.IDLE
    return CallState(phase, reason, report.get("downlink_ms"), installed)

"""Puts the transport in place: the tuned one, or the libraries' own.

The tuning replaces names inside aiortc and streamlit-webrtc (there is no public way to any of it), so it is tied to
the tested versions, and each name is looked at before it is replaced. A connection takes its parts when it is set up:
installing another transport acts on the next connection and leaves those under way alone.
"""

from __future__ import annotations

import gc
import importlib.metadata
import inspect
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pipeline.errors import Code, TurnaroundError
from pipeline.settings import Settings
from pipeline.transport import codecs, jitter, sdp
from pipeline.transport.loop import MediaLoop

TESTED: Mapping[str, str] = MappingProxyType(
    {"streamlit": "1.67.0", "streamlit-webrtc": "0.79.0", "aiortc": "1.16.0", "av": "18.1.0"}
)
SWITCH_INTERVAL_S = 0.0005  # Python's default of 5 ms is a quarter of a frame


@dataclass(frozen=True, slots=True)
class Installed:
    """What is in force for the next connection."""

    transport: str  # tuned | stock
    loop: str  # own | streamlit
    priority: str  # of the media loop's thread: realtime | nice | normal
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Patch:
    """One name replaced: `owner.name` is a callable with these parameters, or a property when they are None."""

    owner: Any
    name: str
    parameters: tuple[str, ...] | None
    replacement: Any

    def where(self) -> str:
        return f"{getattr(self.owner, '__module__', '') or ''}.{self.owner.__name__}.{self.name}".lstrip(".")

    def fits(self) -> bool:
        """Whether the name is there and has the shape the replacement was written against."""
        found = inspect.getattr_static(self.owner, self.name, None)
        if self.parameters is None:
            return isinstance(found, property)
        return callable(found) and tuple(inspect.signature(found).parameters) == self.parameters


class Switch:
    """Applies and takes back patches. Remembers what each name was before it was first touched."""

    def __init__(self) -> None:
        self._before: list[tuple[Patch, Any]] = []

    def on(self, patches: list[Patch]) -> None:
        """All of them or none: TurnaroundError TRANSPORT_UNTESTED names those that do not fit."""
        misfits = [p.where() for p in patches if not p.fits()]
        if misfits:
            raise untested(f"not what was tested: {', '.join(misfits)}")
        for patch in patches:
            self._before.append((patch, inspect.getattr_static(patch.owner, patch.name)))
            setattr(patch.owner, patch.name, patch.replacement)

    def off(self) -> None:
        while self._before:
            patch, original = self._before.pop()
            setattr(patch.owner, patch.name, original)


_lock = threading.Lock()
_switch = Switch()
_pages = Switch()
_media_loop: MediaLoop | None = None
_installed: Installed | None = None
_default_switch_interval = sys.getswitchinterval()


def install(settings: Settings) -> Installed:
    """Put `settings.transport` in force for the connections to come. Cheap when it already is; thread-safe.

    TurnaroundError TRANSPORT_UNTESTED when a library is not the tested version or lacks a name that is replaced.
    """
    global _installed
    with _lock:
        if _installed is None:
            keep_call_across_pages()
        if _installed is None or _installed.transport != settings.transport:
            _installed = _tune(settings) if settings.transport == "tuned" else _untune()
        return _installed


def _tune(settings: Settings) -> Installed:
    global _media_loop
    versions = check_versions()
    if _media_loop is None:
        codecs.warm_up(settings.out_ptime_ms)
        _media_loop = MediaLoop()
    _switch.on(tuned_patches(_media_loop))
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    return Installed("tuned", "own", _media_loop.priority, versions)


def _untune() -> Installed:
    _switch.off()
    sys.setswitchinterval(_default_switch_interval)
    return Installed("stock", "streamlit", "normal", found_versions())


def tuned_patches(media: MediaLoop) -> list[Patch]:
    """Every name the tuning replaces, with the shape it must have. What each is for stands in its module."""
    import aiortc.codecs
    import aiortc.rtcrtpreceiver as receiver
    import streamlit_webrtc.webrtc as worker

    return [
        Patch(receiver, "JitterBuffer", ("capacity", "prefetch", "is_video"), jitter.jitter_buffer),
        Patch(receiver, "decoder_worker", ("loop", "input_q", "output_q", "decode_error"), codecs.decoder_worker),
        Patch(aiortc.codecs, "OpusEncoder", (), codecs.InlineOpusEncoder),
        Patch(worker, "get_global_event_loop", (), lambda: media.loop),
        Patch(worker, "get_global_relay", (), lambda: media.relay),
        Patch(worker.WebRtcWorker, "local_description", None, property(_local_description)),
    ]


def _local_description(worker: Any) -> Any:
    """streamlit-webrtc's answer to the browser, with the packet length asked for."""
    from aiortc import RTCSessionDescription

    description = worker.pc.localDescription
    return description and RTCSessionDescription(sdp=sdp.with_ptime(description.sdp), type=description.type)


def keep_call_across_pages() -> None:
    """Changing the page must not hang up.

    streamlit-webrtc watches the session's page hash once a second and stops the worker when it moves on, since a
    component on another page is unmounted. Ours is rendered by the entry script on every page, so it stays mounted: the
    watch is told that there is no page. The end of the session is still watched.
    """
    import streamlit_webrtc.component as component
    import streamlit_webrtc.shutdown as shutdown

    if "_last_rendered_run_count" not in component.WebRtcStreamerContext.__annotations__:
        raise untested("streamlit_webrtc.component.WebRtcStreamerContext counts its renderings another way")
    _pages.off()
    _pages.on([Patch(shutdown, "_get_current_page_script_hash", ("app_session",), _no_page)])


def _no_page(_app_session: Any) -> str:
    return ""


def keep_call_across_runs(context: Any) -> None:
    """Before each rendering: `context` (streamlit-webrtc's, of the session state) is not an orphan.

    The library hangs up when a script run seems to have passed without the component. It compares with a count that the
    server's loop moves on when it sends a run's end, so two quick runs on a busy machine look like a missing one:
    3 of 25 stock calls were lost right after connecting. Ours is rendered in every run.
    """
    context._last_rendered_run_count = None


def found_versions() -> Mapping[str, str]:
    """The versions of the transport's libraries; "missing" where there is none."""

    def of(package: str) -> str:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return "missing"

    return MappingProxyType({package: of(package) for package in TESTED})


def check_versions(found: Callable[[], Mapping[str, str]] = found_versions) -> Mapping[str, str]:
    """The versions found, all tested ones; TurnaroundError TRANSPORT_UNTESTED otherwise."""
    versions = found()
    others = [f"{p} {versions[p]} (tested: {TESTED[p]})" for p in TESTED if versions[p] != TESTED[p]]
    if others:
        raise untested("the tuned transport was not tested with " + ", ".join(others))
    return versions


def untested(what: str) -> TurnaroundError:
    tested = " ".join(f"{package}=={version}" for package, version in TESTED.items())
    return TurnaroundError(
        Code.TRANSPORT_UNTESTED, what, f"pip install {tested}, or start with the setting transport=stock"
    )


def freeze_garbage() -> None:
    """Call once the models are loaded: what lives for ever is no longer walked by the collector (77-190 ms a walk)."""
    gc.collect()
    gc.freeze()

"""The sidebar: one control a setting, generated from pipeline.settings; live ones act on the session at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from math import isclose
from typing import Any

import streamlit as st

from pipeline import profiles
from pipeline.blame import Rules
from pipeline.errors import TurnaroundError
from pipeline.manners import MANNERS
from pipeline.settings import Settings, Tunable, tunables
from pipeline.surroundings import profile_named
from pipeline.timeline import Budget
from pipeline.ui.words import of_error, say, setting_name, unit

Apply = Callable[[Settings], None]
_STEPS = (100, 50, 20, 10, 5, 4, 2, 1)
_FINE_STEPS = (0.5, 0.2, 0.1, 0.05)
_FEWEST_PARTS = 8  # a slider with fewer stops is too coarse
_ENGINE_KINDS = {"vad": "vad", "turn_model": "turn", "asr": "asr", "llm": "llm", "tts": "tts"}
_NAMED = {*_ENGINE_KINDS, "scenario", "manner"}  # settings whose text is one of a list of names
_NO_TURN_MODEL = "none"
_PROFILE_PROBLEM = "profile.problem"
_BEGUN = "settings.begun"


def current() -> Settings:
    """The settings of this visit; they begin with the operator's profile."""
    if "settings" not in st.session_state:
        st.session_state["settings"] = beginning()
    settings: Settings = st.session_state["settings"]
    return settings


def beginning() -> Settings:
    """What the operator's profile says. One that cannot be read is a problem to be shown: see `profile_problem`."""
    try:
        return profiles.read_profile(profile_named())
    except TurnaroundError as error:
        st.session_state.setdefault(_PROFILE_PROBLEM, error)
        return Settings()


def profile_problem() -> TurnaroundError | None:
    """Why the operator's profile cannot be used, until the visitor has chosen other engines."""
    problem: TurnaroundError | None = st.session_state.get(_PROFILE_PROBLEM)
    return problem


def take(settings: Settings, begun: Settings) -> None:
    """Make these the settings of the visit, on the controls too; `begun` is what a reset goes back to from now on."""
    state = st.session_state
    state["settings"], state[_BEGUN] = settings, begun
    state[_PROFILE_PROBLEM] = None
    state.pop("set.problem", None)
    for tunable in tunables():
        state[key_of(tunable.name)] = getattr(settings, tunable.name)


def budget(settings: Settings) -> Budget:
    """The budget on screen; its total is the sum of its parts."""
    parts = (float(settings.budget_listen_ms), float(settings.budget_think_ms), float(settings.budget_speak_ms))
    return Budget(*parts, total=sum(parts))


def rules(settings: Settings) -> Rules:
    """What blame may expect of a turn under these settings."""
    return Rules(float(settings.endpoint_floor_ms), openers=settings.openers)


def key_of(name: str) -> str:
    """The widget key of a setting."""
    return f"set.{name}"


def step_of(tunable: Tunable) -> int | float:
    """The step of its slider: coarse enough for arrow keys, and such that default and bounds can be reached."""
    low, high = tunable.low or 0, tunable.high or 0
    steps: tuple[float, ...] = _FINE_STEPS if isinstance(tunable.default, float) else _STEPS
    for step in steps:
        if (high - low) / step >= _FEWEST_PARTS and all(_whole((v - low) / step) for v in (tunable.default, high)):
            return step
    return steps[-1]


def _whole(parts: float) -> bool:
    return isclose(parts, round(parts), abs_tol=1e-6)


def remember(names: Iterable[str], apply: Apply) -> None:
    """Take these controls into the settings of the visit and hand them to `apply`.

    What does not fit together, or what the session refuses, leaves a message and the last good settings.
    """
    state = st.session_state
    values = {n: state[key_of(n)] for n in names if key_of(n) in state}
    before = current()
    try:
        settings = before.changed(**values)
        apply(settings)
    except ValueError as error:
        state["set.problem"] = ("", str(error))
    except TurnaroundError as error:
        state["set.problem"] = (error.code, error.what)
    else:
        state["settings"] = settings
        state.pop("set.problem", None)


def reset(apply: Apply) -> None:
    """All live settings back to what the visit began with."""
    live = [t for t in tunables() if t.live]
    begun: Settings = st.session_state.get(_BEGUN) or beginning()
    for tunable in live:
        st.session_state[key_of(tunable.name)] = getattr(begun, tunable.name)
    remember([t.name for t in live], apply)


def show_again() -> None:
    """Before `panel`, in a run of the whole page: send the browser the state of every switch once more.

    A server whose first request is for a page runs that page, then the entry script; the browser drops what it was sent
    first, and shows every switch as off that is not sent anew.
    """
    for key in (key_of(t.name) for t in tunables() if t.live and isinstance(t.default, bool)):
        if key in st.session_state:
            st.session_state[key] = st.session_state[key]


@st.fragment
def panel(lang: str, apply: Apply, reconnect: Apply) -> None:
    """Everything in the sidebar. `apply` gets live changes, `reconnect` those that need a new session.

    A fragment, so that moving a slider redraws neither the page nor the call.
    """
    st.subheader(say("set.heading", lang), anchor=False)
    st.caption(say("set.about", lang))
    _problem(lang)
    live = [t for t in tunables() if t.live]
    for group, members in groupby(sorted(live, key=lambda t: _order(t.group)), key=lambda t: t.group):
        with st.expander(say(f"group.{group}", lang), expanded=group == "listen"):
            for tunable in members:
                _control(tunable, lang, on_change=remember, args=((tunable.name,), apply))
    with st.expander(say("set.later", lang)), st.form("later", border=False):
        later = [t for t in tunables() if not t.live]
        for tunable in later:
            _control(tunable, lang)
        st.form_submit_button(
            say("set.apply", lang),
            help=say("set.apply-help", lang),
            on_click=remember,
            args=([t.name for t in later], reconnect),
        )
    st.button(say("set.reset", lang), key="set.reset", on_click=reset, args=(apply,), width="stretch")
    if st.session_state.pop("set.rerun", False):
        st.rerun()


def _order(group: str) -> int:
    known = ("listen", "think", "speak", "engines", "budget", "safety", "transport")
    return known.index(group) if group in known else len(known)


def _problem(lang: str) -> None:
    problem: tuple[str, str] | None = st.session_state.get("set.problem")
    if problem is None:
        return
    code, detail = problem
    with st.container(border=True):
        st.error(say("set.refused", lang))
        if code:
            advice = of_error(code, lang)  # type: ignore[arg-type]
            st.text(f"{advice.what} {advice.do}")
        elif "endpoint_floor_ms" in detail and "endpoint_ceiling_ms" in detail:
            st.text(say("set.floor-ceiling", lang))
        st.text(detail)


def _control(tunable: Tunable, lang: str, **events: Any) -> None:
    """The one widget that suits a setting, showing its current value."""
    key = key_of(tunable.name)
    st.session_state.setdefault(key, getattr(current(), tunable.name))
    label = setting_name(tunable.name, lang)
    words: dict[str, Any] = {"key": key, "help": f"{tunable.help(lang)} ({tunable.name})", **events}
    if isinstance(tunable.default, bool):
        st.toggle(label, **words)
    elif isinstance(tunable.default, str) and not tunable.choices and tunable.name not in _NAMED:
        st.text_input(label, **words)
    elif tunable.choices or isinstance(tunable.default, str):
        options = tunable.choices or names_for(tunable.name, st.session_state[key])
        st.selectbox(_with_unit(label, tunable, lang), options, **words)
    else:
        st.slider(
            _with_unit(label, tunable, lang),
            min_value=_as(tunable.default, tunable.low),
            max_value=_as(tunable.default, tunable.high),
            step=step_of(tunable),
            **words,
        )


def _with_unit(label: str, tunable: Tunable, lang: str) -> str:
    measure = unit(tunable.unit, lang)
    # The unit of a count of sentences or tokens is in its label already.
    if not measure or tunable.unit not in ("ms", "s", "x"):
        return label
    return f"{label}（{measure}）" if lang == "zh" else f"{label} ({measure})"


def _as(default: Any, bound: float | None) -> Any:
    assert bound is not None, "a number without bounds has no slider"
    return float(bound) if isinstance(default, float) else int(bound)


def names_for(setting: str, now: str) -> tuple[str, ...]:
    """The names a setting of type text may take; `now` is always among them."""
    if setting == "scenario":
        from pipeline.scenario import names

        found: tuple[str, ...] = names()
    elif setting in _ENGINE_KINDS:
        from pipeline.engines.registry import rows

        found = tuple(r.name for r in rows() if r.kind == _ENGINE_KINDS[setting])
        found = (*found, _NO_TURN_MODEL) if setting == "turn_model" else found
    elif setting == "manner":
        found = ("", *MANNERS)
    else:
        found = ()
    return found if now in found else (*found, now)


def fits(tunable: Tunable) -> bool:
    """Whether its slider can show its default exactly. Tests ask this of every setting."""
    if tunable.low is None or isinstance(tunable.default, bool):
        return True
    return _whole((tunable.default - tunable.low) / step_of(tunable))

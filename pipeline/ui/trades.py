"""The trade on the Latency page: a sweep's chart, and a button that applies one of its points to the live session."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from pipeline.trade import BadTrade, Point, default_of, read, settings_of
from pipeline.ui import charts, controls, tradeoff
from pipeline.ui.words import say

_ROOT = Path(__file__).resolve().parents[2]
SHIPPED = _ROOT / "assets" / "sweep.json"
RUNS = _ROOT / "runs"


def files() -> list[Path]:
    """The sweep that comes with the project, then those under runs/, the newest first."""
    found = [p for p in RUNS.glob("*.json") if p.is_file() and _is_sweep(p)] if RUNS.is_dir() else []
    found.sort(key=lambda p: p.stat().st_mtime, reverse=True)
    return [*([SHIPPED] if SHIPPED.is_file() else []), *found]


def _is_sweep(path: Path) -> bool:
    """Bench reports lie in the same folder; only a sweep has points."""
    try:
        return '"points"' in path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


@st.fragment
def section(lang: str, apply: controls.Apply) -> None:
    """Its own fragment and without a poll: nothing in here changes by itself."""
    st.markdown(f"**{say('trade.heading', lang)}**")
    st.caption(say("trade.about", lang))
    found = files()
    if not found:
        st.info(say("trade.empty", lang))
        return
    chosen = found[0]
    if len(found) > 1:
        chosen = st.selectbox(say("trade.file", lang), found, format_func=lambda p: p.name, key="trade.file")
    try:
        points = read(chosen.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, BadTrade) as error:
        st.warning(say("trade.bad", lang))
        st.text(f"{chosen.name}: {error}")
        return
    st.text(tradeoff.explain(points, lang) or " ")
    made = tradeoff.figure(points, lang)
    st.plotly_chart(made, key="trade-figure", config=charts.CONFIG, alt=say("trade.alt", lang))
    _use(points, lang, apply)


def _use(points: tuple[Point, ...], lang: str, apply: controls.Apply) -> None:
    drawn = [p for p in points if p.drawn]
    if not drawn:
        return
    default = default_of(points)
    names = {p.name: p for p in drawn}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.selectbox(
            say("trade.point", lang),
            list(names),
            index=list(names).index(default.name) if default else 0,
            format_func=lambda n: tradeoff.label(names[n], lang) if n in names else n,
            key="trade.point",
        )
        point = names.get(name, drawn[0])
        pressed = st.button(
            say("trade.use", lang), key="trade.use", disabled=point.serial, on_click=use, args=(point, apply),
            icon=":material/tune:",
        )  # fmt: skip
    if point.serial:
        st.caption(say("trade.serial-only", lang))
    elif in_use(point):
        st.caption(say("trade.used", lang, name=point.name))
    if pressed:
        st.rerun()  # the sliders stand outside of this fragment


def use(point: Point, apply: controls.Apply) -> None:
    """As if the visitor had moved the sliders there. What does not fit leaves the words that sliders leave."""
    state = st.session_state
    try:
        values = settings_of(point, controls.current())
    except ValueError as error:
        state["set.problem"] = ("", str(error))
        return
    for name, value in values.items():
        state[controls.key_of(name)] = value
    controls.remember(values, apply)


def in_use(point: Point) -> bool:
    """Whether the settings of this visit are the point's."""
    now = controls.current()
    try:
        return all(getattr(now, name) == value for name, value in settings_of(point, now).items())
    except ValueError:
        return False

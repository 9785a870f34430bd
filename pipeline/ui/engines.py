"""The Engines page: every engine by stage, what it needs, whether this machine has it, and how to get the rest."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from pipeline import profiles, surroundings
from pipeline.errors import Code, TurnaroundError
from pipeline.settings import Settings
from pipeline.ui import bubbles, controls, missing, resources
from pipeline.ui.downloads import Fate, Job, downloads
from pipeline.ui.words import say

if TYPE_CHECKING:
    from pipeline.engines.hub import HubModel, Presence
    from pipeline.engines.registry import Kind, Row
    from pipeline.ports import EngineOptions

POLL_S = 0.5
_BUTTONS = {"absent": "get.start", "half": "get.resume", "broken": "get.repair"}


def page(settings: Settings, lang: str, reconnect: controls.Apply) -> None:
    """Everything on the page."""
    from pipeline.engines.registry import Kind, rows

    st.subheader(say("eng.heading", lang), anchor=False)
    st.caption(say("eng.about", lang))
    _profile(settings, lang, reconnect)
    options = surroundings.engine_options(settings, secret_of=resources.secret)
    if surroundings.downloads_allowed():
        st.text(say("eng.folder", lang, folder=options.models, free=size(_free(options.models))))
    else:  # where the folder lies is no business of a guest
        st.info(say("eng.off", lang), icon=":material/lock:")
    for kind in Kind:
        st.markdown(f"#### {say(f'stage.{kind.value}', lang)}")
        for row in (r for r in rows() if r.kind is kind):
            with st.container(border=True, key=f"engine-{kind.value}-{row.name}"):
                _engine(kind, row, settings, options, lang)


def _profile(settings: Settings, lang: str, reconnect: controls.Apply) -> None:
    """Another set of engines, at one press."""
    names = profiles.names()
    now = next((i for i, name in enumerate(names) if missing.same(profiles.read_profile(name), settings)), 0)
    with st.container(horizontal=True, vertical_alignment="bottom", key="profile"):
        chosen = st.selectbox(
            say("profile.heading", lang),
            names,
            index=now,
            format_func=lambda name: _word(f"profile.{name}", lang, name),
            help=say("profile.about", lang),
            key="profile.which",
        )
        st.button(
            say("profile.use", lang),
            key="profile.use",
            icon=":material/swap_horiz:",
            on_click=missing.use,
            args=(chosen, reconnect),
        )


def _engine(kind: Kind, row: Row, settings: Settings, options: EngineOptions, lang: str) -> None:
    """One engine: what it is, whether it is in use and ready, what it lacks."""
    from pipeline import stock

    in_use = (kind, row.name) in stock.chosen(settings)
    lacks = stock.lacks(row, settings, options)
    st.html(_card(row, _chips(row, in_use, bool(lacks), options, lang), lang))
    of_models = (Code.WEIGHTS_MISSING, Code.WEIGHTS_CORRUPT)  # those have a line of their own below
    missing.lacks(tuple(lack for lack in lacks if lack.code not in of_models), lang)
    if row.chosen_by and len(row.models) > 1:
        st.caption(say("eng.choose-one", lang, setting=row.chosen_by))
    for model in row.models:
        _model(model, f"{kind.value}-{row.name}-{model.name}", options.models, lang)


def _chips(row: Row, in_use: bool, lacking: bool, options: EngineOptions, lang: str) -> Sequence[tuple[str, str]]:
    """Style and word of each label."""
    from pipeline import stock

    chips = [("use", "eng.in-use")] if in_use else []
    try:
        unfetched = bool(stock.unfetched(row, options))
    except TurnaroundError:
        return [*((s, say(w, lang)) for s, w in chips), ("over", say("eng.damaged", lang))]
    state = ("over", "eng.missing") if lacking else ("", "eng.at-start") if unfetched else ("in", "eng.ready")
    return [(style, say(word, lang)) for style, word in (*chips, state)]


def _card(row: Row, chips: Sequence[tuple[str, str]], lang: str) -> str:
    names = ("、" if lang == "zh" else ", ").join(_word(f"lang.{code}", lang, code) for code in row.languages)
    weights = size(row.size_mb * 1e6) if row.size_mb else say("eng.no-weights", lang)
    facts = (("eng.licence", row.licence), ("eng.languages", names), ("eng.size", weights))
    labels = "".join(f'<span class="ta-chip ta-{style}">{escape(word)}</span>' for style, word in chips)
    listed = "".join(f"<span><i>{escape(say(key, lang))}:</i> {escape(value)}</span>" for key, value in facts)
    return (
        f'<div class="ta-engine"><b>{escape(row.name)}</b>{labels}<p>{escape(row.about(lang))}</p>'
        f'<div class="ta-facts">{listed}</div></div>'
    )


def _word(key: str, lang: str, otherwise: str) -> str:
    """A text of the table, which may be older than what it names."""
    try:
        return say(key, lang)
    except KeyError:
        return otherwise


# -- one model and its download


def _model(model: HubModel, key: str, models: Path, lang: str) -> None:
    """A line about a model of the hub, in a fragment that polls only while it is being downloaded."""
    job = downloads().of(model)
    polls = POLL_S if job is not None and job.running else None
    with st.container(key=f"model-{key}"):
        st.fragment(_model_now, run_every=polls)(model, key, models, lang, polls is not None)


def _model_now(model: HubModel, key: str, models: Path, lang: str, polling: bool) -> None:
    from pipeline.engines.hub import Presence, presence_of

    job = downloads().of(model)
    running = job is not None and job.running
    if running != polling:  # it began or ended: the page above shows that too, and polls or stops polling
        st.rerun()
    presence = presence_of(model, models)
    state = "" if running else f" · {say(f'eng.{presence.value}', lang)}"
    st.text(say("eng.model", lang, name=model.name, size=size(model.size), licence=model.licence) + state)
    if running and job is not None:
        _running(job, key, lang)
        return
    if job is not None and job.fate is Fate.STOPPED and presence is not Presence.WHOLE:
        st.caption(say("get.stopped", lang))
    if job is not None and job.error is not None and presence is not Presence.WHOLE:
        st.html(bubbles.problem(job.error, lang))
    if presence is not Presence.WHOLE:
        _ways(model, presence, key, models, lang)


def _running(job: Job, key: str, lang: str) -> None:
    """The bar and the button that stops it."""
    now = job.progress
    share = int(100 * now.share)
    pace = f" · {size(now.pace)}/s" if now.pace else ""
    words = say(f"get.{now.phase}", lang, done=size(now.done), total=size(now.total), share=share, pace=pace)
    st.progress(now.share, text=words)
    st.button(say("get.cancel", lang), key=f"cancel.{key}", icon=":material/close:", on_click=job.cancel)


def _ways(model: HubModel, presence: Presence, key: str, models: Path, lang: str) -> None:
    """The button where the operator allows it, else the command."""
    if surroundings.downloads_allowed():
        st.button(
            say(_BUTTONS[presence.value], lang, size=size(model.size)),
            key=f"get.{key}",
            icon=":material/download:",
            on_click=_start,
            args=(model, models),
        )
        return
    st.code(f"python -m pipeline download {model.name}", language=None, wrap_lines=True)


def _start(model: HubModel, models: Path) -> None:
    downloads().start(model, models)


def size(n: float) -> str:
    """Bytes for people."""
    from pipeline.download import size as in_words

    return in_words(n)


def _free(folder: Path) -> int:
    there = next(p for p in (folder, *folder.parents) if p.exists())
    return shutil.disk_usage(there).free

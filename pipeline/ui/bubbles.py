"""Turns, figures and notices as small pieces of HTML for st.html. Pure functions from values to text.

Whatever a caller or a model said goes through `escape`: it is shown as it stands, never as markup.
One piece for a whole block instead of one widget a line: a poll then sends one element, and an unchanged one is not
drawn again by the browser.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from pipeline.blame import Rules
from pipeline.errors import Code, TurnaroundError
from pipeline.events import Notice, Snapshot, State, TurnView
from pipeline.settings import Settings
from pipeline.timeline import Budget, Mark, Percentiles, share_within
from pipeline.ui import reasons as reasons_of
from pipeline.ui.charts import labels, measured, why_nothing
from pipeline.ui.words import MOODS, of_error, of_notice, say

SHOWN_TURNS = 20
NOTICE_S = 12.0  # how long a notice stays on the page
FEW = 20  # with fewer turns a p95 is one turn's bad luck
RULES = Rules(floor_ms=float(Settings().endpoint_floor_ms))
_QUIET_DBFS = -60.0


def conversation(
    turns: Sequence[TurnView], budget: Budget, lang: str, connected: bool = False, rules: Rules = RULES
) -> str:
    """The turns as bubbles, oldest first, the newest SHOWN_TURNS of them; what to do when there are none."""
    if not turns:
        idle = (say("talk.empty", lang), say("talk.empty-sample", lang))
        hints = (say("talk.go-ahead", lang),) if connected else idle
        return '<div class="ta-empty">' + "".join(f"<p>{escape(h)}</p>" for h in hints) + "</div>"
    older = len(turns) - SHOWN_TURNS
    head = f'<p class="ta-note">{escape(say("talk.older", lang, n=older))}</p>' if older > 0 else ""
    body = "".join(turn(t, budget, lang, rules) for t in turns[-SHOWN_TURNS:])
    name = escape(say("talk.heading", lang))
    return f'<div class="ta-talk" role="log" aria-live="polite" aria-label="{name}">{head}{body}</div>'


def turn(view: TurnView, budget: Budget, lang: str, rules: Rules = RULES) -> str:
    """One turn: what was heard, what was replied, how long it took or why it failed."""
    parts = [_heard(view, lang), _reply(view, lang), _failure(view, lang), _timing(view, budget, lang, rules)]
    return f'<section class="ta-turn">{"".join(parts)}</section>'


def _bubble(who: str, side: str, body: str, extra: str = "") -> str:
    return (
        f'<div class="ta-row ta-{side}"><div class="ta-bubble{extra}">'
        f'<span class="ta-who">{escape(who)}</span><span class="ta-text">{body}</span></div></div>'
    )


def _heard(view: TurnView, lang: str) -> str:
    who = f"{say('talk.you', lang)} · {say('turn.n', lang, n=view.number)}"
    if view.emotion in MOODS:  # a neutral voice needs no mention
        who += f" · {say(f'mood.{view.emotion}', lang)}"
    waiting = say("talk.no-words" if view.ended else "talk.hearing", lang)
    body = escape(view.heard) if view.heard else f"<i>{escape(waiting)}</i>"
    return _bubble(who, "caller", body, "" if view.final or view.ended else " ta-live")


def _reply(view: TurnView, lang: str) -> str:
    who = say("talk.reply", lang)
    if view.state is State.INTERRUPTED:
        if not view.reply:
            return f'<p class="ta-note">{escape(say("talk.interrupted-before", lang))}</p>'
        said, unsaid = split_reply(view)
        struck = f"<s>{escape(unsaid)}</s>" if unsaid else ""
        note = say("talk.interrupted" if said else "talk.interrupted-before", lang)
        return _bubble(who, "reply", f"{escape(said)}{struck}", " ta-cut") + f'<p class="ta-note">{escape(note)}</p>'
    if view.apology:
        told = f'{escape(view.apology)} <span class="ta-chip">{escape(say("label.cached", lang))}</span>'
        return _bubble(who, "reply", told)
    if view.reply:
        return _bubble(who, "reply", escape(view.reply), "" if view.ended else " ta-live")
    if view.state is State.COMMITTED:
        return _bubble(who, "reply", f"<i>{escape(say('talk.thinking', lang))}</i>", " ta-live")
    return ""


def split_reply(view: TurnView) -> tuple[str, str]:
    """An interrupted reply as (what was heard, what was not).

    `spoken` is put together from phrases, so its spaces may differ from the reply's: only the other characters count.
    """
    left = [c for c in view.spoken if not c.isspace()]
    at = 0
    for at, char in enumerate(view.reply):
        if not left:
            return view.reply[:at], view.reply[at:]
        if char.isspace():
            continue
        if char != left[0]:
            return view.spoken, ""
        left.pop(0)
    return view.reply, ""


def _failure(view: TurnView, lang: str) -> str:
    if view.code is None:
        return ""
    advice = of_error(view.code, lang)
    quiet = " ta-quiet" if view.false_start else ""
    # The detail is for who can mend it; that there were no words in a noise needs no mending.
    shown = view.detail and not view.false_start
    detail = f'<p class="ta-detail">{escape(say("error.detail", lang))} {escape(view.detail)}</p>' if shown else ""
    return (
        f'<div class="ta-problem{quiet}"><b>{escape(advice.what)}</b> {escape(advice.do)} '
        f"<code>{escape(view.code)}</code>{detail}</div>"
    )


def _timing(view: TurnView, budget: Budget, lang: str, rules: Rules) -> str:
    """As soon as the first sample left; a reply that was only drafted has no timing."""
    spans = view.spans
    if spans is None:
        return ""
    whole = {k: f"{max(v, 0.0):.0f}" for k, v in spans.as_dict().items()}
    inside = spans.total <= budget.total
    verdict = say("label.within" if inside else "label.over", lang)
    chips = [
        f'<span class="ta-chip {"ta-in" if inside else "ta-over"}">{"✓" if inside else "✗"} {escape(verdict)}</span>'
    ]
    chips += [f'<span class="ta-chip">{escape(label)}</span>' for label in labels(view, lang)]
    reasons = "".join(f"<br>{escape(reason)}" for reason in why_nothing(view, spans, lang))
    if not inside:
        reasons = f"<br>{reasons_of.line(view, budget, rules, lang)}{reasons}"
    return f'<p class="ta-timing">{escape(say("talk.measured", lang, **whole))} {"".join(chips)}{reasons}</p>'


def notices(items: Iterable[Notice], now: float, lang: str) -> str:
    """The newest notice while it is fresh; an empty line of the same height otherwise, so that nothing jumps."""
    fresh = [n for n in items if now - n.at < NOTICE_S]
    if not fresh:
        return '<div class="ta-notice" role="status"></div>'
    advice = of_notice(fresh[-1].code, lang)
    return f'<div class="ta-notice ta-on" role="status"><b>{escape(advice.what)}</b> {escape(advice.do)}</div>'


def _tiles(pairs: Iterable[tuple[str, str]]) -> str:
    tiles = "".join(f'<div role="listitem"><i>{escape(name)}</i> <b>{escape(value)}</b></div>' for name, value in pairs)
    return f'<div class="ta-tiles" role="list">{tiles}</div>'


def figures(turns: Sequence[TurnView], budget: Budget, lang: str) -> str:
    """Measured turns, the share inside the budget and the percentiles of the total; dashes before the first."""
    totals = [s.total for _, s in measured(turns)]
    spread, share = Percentiles.of(totals), share_within(totals, budget)
    ms = say("fig.ms-short", lang)
    values = ("–", "–", "–") if spread is None else tuple(f"{v:.0f} {ms}" for v in (spread.p50, spread.p95, spread.p99))
    tiles = [
        (say("num.turns", lang), str(len(totals))),
        (say("num.share", lang, ms=f"{budget.total:.0f}"), "–" if share is None else f"{share:.0%}"),
        *((say(f"num.{p}", lang), value) for p, value in zip(("p50", "p95", "p99"), values, strict=True)),
    ]
    few = f'<p class="ta-note">{escape(say("num.few", lang, n=len(totals)))}</p>' if 0 < len(totals) < FEW else ""
    return _tiles(tiles) + few


def health(snapshot: Snapshot, lang: str) -> str:
    """Gaps, false starts, drafts and the load of the machine."""
    load, drafts = snapshot.load, snapshot.drafts
    asked = sum(Mark.SPEECH_END in t.timeline.marks for t in snapshot.turns)
    share = f"{snapshot.draft_hits / drafts:.0%}" if drafts else "–"
    each = f"{drafts / asked:.1f}" if asked else "–"
    return _tiles(
        [
            (say("health.underruns", lang), str(snapshot.underruns)),
            (say("health.false", lang), str(snapshot.false_starts)),
            (say("health.drafts", lang), f"{snapshot.drafts_dropped} / {drafts}"),
            (say("health.each", lang), each),
            (say("health.hits", lang), share),
            (say("health.tokens", lang), str(snapshot.wasted_tokens)),
            (say("health.wasted", lang), f"{snapshot.wasted_cpu_s:.1f} s"),
            (say("health.cpu", lang), f"{load.cpu_share:.0%}"),
            (say("health.rss", lang), f"{load.rss_mb:.0f} MB"),
            (say("health.late", lang), f"{load.late_slots} / {load.slots}"),
            (say("health.dropped", lang), str(snapshot.dropped_chunks)),
        ]
    )


def meter(snapshot: Snapshot, words: str, lang: str) -> str:
    """The state of the call in words, and the level of the microphone as a bar. A dot for those who only glance."""
    level = snapshot.level_dbfs if snapshot.connected else -100.0
    share = min(max((level - _QUIET_DBFS) / -_QUIET_DBFS, 0.0), 1.0)
    tone = "ta-off" if not snapshot.connected else "ta-speak" if snapshot.speaking else "ta-ready"
    name = escape(say("call.level", lang))
    return (
        f'<div class="ta-call {tone}"><span class="ta-dot" aria-hidden="true"></span>'
        f'<span role="status">{escape(words)}</span>'
        f'<span class="ta-meter" role="meter" aria-label="{name}" aria-valuemin="0" aria-valuemax="100" '
        f'aria-valuenow="{share * 100:.0f}"><span style="width:{share * 100:.0f}%"></span></span></div>'
    )


def problem(error: TurnaroundError, lang: str) -> str:
    """An error of its own (not a turn's): plain words, what to do, the code, and the detail for who can use it."""
    advice = of_error(error.code, lang)
    detail = " → ".join(part for part in (error.what, error.remedy) if part)
    return (
        f'<div class="ta-problem" role="alert"><b>{escape(advice.what)}</b>'
        f"<p>{escape(say('error.do', lang))} {escape(advice.do)}</p>"
        f'<p class="ta-detail">{escape(say("error.code", lang))} <code>{escape(error.code)}</code><br>'
        f"{escape(say('error.detail', lang))} {escape(detail)}</p></div>"
    )


def missing_engine(stage: str, engine: str) -> str:
    """The head of what an engine lacks."""
    return f'<div class="ta-engine"><b>{escape(engine)}</b><span class="ta-note">{escape(stage)}</span></div>'


def lack(code: Code, what: str, lang: str) -> str:
    """One thing an engine lacks: in plain words, then exactly. What to do stands below it."""
    return (
        f'<div class="ta-lack"><span>{escape(of_error(code, lang).what)}</span> '
        f'<span class="ta-detail">{escape(what)}</span> <code>{escape(code)}</code></div>'
    )

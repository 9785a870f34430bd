"""Why turns were over the budget, as small pieces of HTML: one turn's reason, and the ranking over the visit."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from pipeline.blame import Blame, Rules, blame, ranking
from pipeline.events import TurnView
from pipeline.timeline import Budget
from pipeline.ui.charts import measured
from pipeline.ui.remedies import of_reason
from pipeline.ui.words import say


def why(view: TurnView, budget: Budget, rules: Rules) -> Blame | None:
    """The blame of one turn of the page, from the session's own end of speech."""
    return blame(view, view.spans, budget, rules)


def line(view: TurnView, budget: Budget, rules: Rules, lang: str) -> str:
    """One line for a turn over the budget: the stage, the reason, what to do; "" for any other."""
    found = why(view, budget, rules)
    if found is None:
        return ""
    advice = of_reason(found.reason, lang)
    stage = say(f"fig.{found.stage}", lang)
    head = say("blame.line", lang, stage=stage, ms=f"{found.over_ms:.0f}")
    return f'<span class="ta-why">{escape(head)} <b>{escape(advice.what)}</b> {escape(advice.do)}</span>'


def ranked(turns: Sequence[TurnView], budget: Budget, rules: Rules, lang: str) -> str:
    """The reasons by the turns they cost, the worst first, each with a bar and what to do."""
    counts = ranking(why(t, budget, rules) for t, _ in measured(turns))
    if not counts:
        return f'<p class="ta-note">{escape(say("blame.none", lang))}</p>'
    most = max(counts.values())
    rows = []
    for reason, count in counts.items():
        advice = of_reason(reason, lang)
        rows.append(
            f'<li><span class="ta-bar" style="width:{count / most * 100:.0f}%" aria-hidden="true"></span>'
            f"<b>{escape(advice.what)}</b> {escape(say('blame.turns', lang, n=count))}"
            f'<span class="ta-note">{escape(advice.do)}</span></li>'
        )
    return f'<ol class="ta-blames" aria-label="{escape(say("blame.heading", lang))}">{"".join(rows)}</ol>'

"""The turns of a visit as rows, and the rows as CSV and Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from pipeline.events import TurnView
from pipeline.timeline import Budget, Mark

_TEXT = ("state", "heard", "reply", "spoken", "code", "detail")
_WHOLE = ("turn", "underruns")
_NUMBER = (
    "listen_ms",
    "think_ms",
    "speak_ms",
    "total_ms",
    "p_finished",
    *(f"{mark.value}_ms" for mark in Mark),
)
_FLAG = ("inside_budget", "drafted", "cached")
_BEFORE = ("turn", "state", "heard", "reply", "spoken", "listen_ms", "think_ms", "speak_ms", "total_ms")
COLUMNS: tuple[str, ...] = (
    *_BEFORE,
    *_FLAG,
    "p_finished",
    "underruns",
    "code",
    "detail",
    *(f"{mark.value}_ms" for mark in Mark),
)


def rows(turns: Sequence[TurnView], budget: Budget) -> list[dict[str, Any]]:
    """One row a turn, the keys in the order of COLUMNS; a figure that was not measured is None.

    The `<mark>_ms` columns count from the end of speech, or from the first mark of a turn that has none.
    """
    return [_row(t, budget) for t in turns]


def _row(turn: TurnView, budget: Budget) -> dict[str, Any]:
    spans, marks = turn.spans, turn.timeline.marks
    origin = marks.get(Mark.SPEECH_END, min(marks.values(), default=0.0))
    values: dict[str, Any] = {
        "turn": turn.number,
        "state": turn.state.value,
        "heard": turn.heard,
        "reply": turn.reply,
        "spoken": turn.spoken,
        "inside_budget": None if spans is None else spans.total <= budget.total,
        "drafted": turn.drafted,
        "cached": turn.cached,
        "p_finished": turn.p_finished,
        "underruns": turn.underruns,
        "code": turn.code.value if turn.code else "",
        "detail": turn.detail,
    }
    for name in ("listen", "think", "speak", "total"):
        values[f"{name}_ms"] = None if spans is None else round(float(getattr(spans, name)), 1)
    for mark in Mark:
        values[f"{mark.value}_ms"] = round((marks[mark] - origin) * 1e3, 1) if mark in marks else None
    return {name: values[name] for name in COLUMNS}


def to_csv(table: Sequence[dict[str, Any]]) -> bytes:
    """UTF-8 with a byte order mark, which spreadsheets need to read Chinese."""
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, COLUMNS)
    writer.writeheader()
    writer.writerows({k: _cell(v) for k, v in row.items()} for row in table)
    return out.getvalue().encode("utf-8-sig")


def _cell(value: Any) -> Any:
    # A spreadsheet runs text that begins like a formula, and this text comes from whoever spoke.
    if isinstance(value, str) and value.lstrip()[:1] in ("=", "+", "-", "@"):
        return "'" + value
    return value


def to_parquet(table: Sequence[dict[str, Any]]) -> bytes:
    """Typed columns, also when every value of one is missing."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {
        **dict.fromkeys(_TEXT, pa.string()),
        **dict.fromkeys(_WHOLE, pa.int64()),
        **dict.fromkeys(_NUMBER, pa.float64()),
        **dict.fromkeys(_FLAG, pa.bool_()),
    }
    schema = pa.schema([(name, kinds[name]) for name in COLUMNS])
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(table), schema=schema), out)
    return out.getvalue()

"""English figures: phone and order numbers digit by digit, money with its cents, ranges, dates, units and signs."""

from __future__ import annotations

import re

from pipeline.figures import CODE, INTERNATIONAL, LANDLINE, LEADING_ZERO, MOBILE, Match, Rules, one_by_one, rules

_DIGITS = dict(zip("0123456789", "zero one two three four five six seven eight nine".split(), strict=True))

# -- numbers that name a thing

# Words before one, and what may stand between.
_NUMBERED = (
    r"(?i:(?:order|tracking|booking|account|reference|confirmation|ticket|invoice|case|serial|policy|room|flight|phone|"
    r"card|verification|parcel)\s(?:number|no\.?|id|code)|ending\sin|reference|ref|confirmation|ticket|invoice|case|"
    r"extension|ext\.?|flight|room|pin|passcode|code|otp|zip|postcode|serial)(?:\s(?i:number|is|no\.?))*[:\s]+"
)
_CALL = r"(?i:call|phone|dial|ring|text|fax|tel|telephone|hotline|number|reach)(?:\s(?i:us|me|is|at|on))*:?\s"
_EMERGENCY = "911|999|112|110|119|120"
# Words that may also count: "order 1500 units" orders many, "order 1029 is ready" names one.
_EITHER = r"(?i:order|account|card|booking|parcel)(?:\sis)?[:\s]+"
_VERBS = "is|was|has|ships|arrives|costs|comes|goes|includes|contains|needs|leaves|starts|ends|expires|looks|shows"
_COUNTS = rf"\s(?!(?:{_VERBS})\b)[a-z]+s\b"
_NO_AMOUNT = r"(?!\d|[.,:]\d|\s?[%$€£])"


def _spelled(match: Match) -> str:
    parts = match.groupdict()
    before = f"plus {_run(parts['country'])}, " if parts.get("country") else parts.get("before") or ""
    return before + _run(match["run"])


def _run(run: str) -> str:
    """Its letters with full stops: "A" would be read as an article, "MU" as a word."""
    return re.sub(r"[A-Z]", r"\g<0>.", one_by_one(run, _DIGITS, " ", ", "))


# -- money

_CURRENCIES = {
    "$": ("dollar", "cent"),
    "US$": ("US dollar", "cent"),
    "USD": ("US dollar", "cent"),
    "A$": ("Australian dollar", "cent"),
    "HK$": ("Hong Kong dollar", "cent"),
    "HKD": ("Hong Kong dollar", "cent"),
    "€": ("euro", "cent"),
    "EUR": ("euro", "cent"),
    "£": ("pound", "pence"),
    "GBP": ("pound", "pence"),
    "¥": ("yuan", ""),
    "CN¥": ("yuan", ""),
    "CNY": ("yuan", ""),
    "RMB": ("yuan", ""),
    "JPY": ("yen", ""),
}
_SCALES = {"k": "thousand", "m": "million", "bn": "billion"}
_SIGN = r"(?P<sign>(?:US|HK|A)?\$|(?:CN)?¥|[€£]|(?:USD|HKD|GBP|EUR|CNY|RMB|JPY)(?=\s?\d))"
_AMOUNT = r"(?P<whole>\d{1,3}(?:,\d{3})+|\d+)(?:\.(?P<change>\d+))?"
_SCALE = r"(?:\s?(?P<scale>million|billion|trillion|thousand|bn|[kKmM])(?![\w/]))?"


def _money(match: Match) -> str:
    large, small = _CURRENCIES[match["sign"]]
    whole, change, scale = match["whole"], match["change"] or "", match.groupdict().get("scale") or ""
    plural = large if large in ("yuan", "yen") else large + "s"
    if scale:
        return f"{whole}{change and '.' + change} {_SCALES.get(scale.lower(), scale)} {plural}"
    if len(change) != 2 or not small:
        change = change.rstrip("0")
        return f"{whole}.{change} {plural}" if change else f"{whole} {large if whole == '1' else plural}"
    parts = []
    if whole != "0" or change == "00":
        parts.append(f"{whole} {large if whole == '1' else plural}")
    if change != "00":
        parts.append(f"{int(change)} {small if change == '01' or small == 'pence' else small + 's'}")
    return " and ".join(parts)


# -- dates and units

_MONTHS = (
    "January|February|March|April|May|June|July|August|September|October|November|December|"
    "Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec"
)
_UNITS = {  # "m" would be minutes to the library, the others letters
    "m": "meter",
    "W": "watt",
    "kW": "kilowatt",
    "kWh": "kilowatt hour",
    "V": "volt",
    "A": "amp",
    "sec": "second",
    "secs": "second",
    "mins": "minute",
    "hr": "hour",
    "hrs": "hour",
    "dB": "decibel",
    "m2": "square meter",
    "m²": "square meter",
    "sqm": "square meter",
    "°": "degree",
}
_UNIT = "|".join(sorted(_UNITS, key=len, reverse=True))
_EACH = "day|night|hour|hr|week|month|year|person|kg|lb|item|room|unit|minute|min"


def _day(match: Match) -> str:
    day = int(match["day"])
    ending = "th" if 10 < day < 20 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{match['month']} {day}{ending}"


def _unit(match: Match) -> str:
    return f"{match['n']} {_UNITS[match['unit']]}{'s' * (match['n'] != '1')}"


ENGLISH: Rules = rules(
    (INTERNATIONAL, _spelled),
    (r"(?<![\w.,-])(?P<run>(?:1-)?\(?\d{3}\)?[ .-]\d{3}[.-]\d{4})(?!\d|[.,]\d)", _spelled),
    (MOBILE, _spelled),
    (LANDLINE, _spelled),
    (r"(?<![\w.,/-])(?P<run>\d{3}-\d{4})(?![\w/-])", _spelled),
    (rf"(?P<before>\b{_CALL})(?P<run>\d{{3}}(?:[ -]\d{{3,4}}){{1,3}}|\d{{5,}}|{_EMERGENCY}){_NO_AMOUNT}", _spelled),
    (CODE, _spelled),
    (rf"(?P<before>\b{_NUMBERED})(?P<run>\d{{3,}}(?:-\d+)*){_NO_AMOUNT}", _spelled),
    (rf"(?P<before>\b{_EITHER})(?P<run>\d{{4,}}(?:-\d+)*){_NO_AMOUNT}(?!{_COUNTS})", _spelled),
    (r"#\s?(?P<run>\d{3,})(?!\d)", lambda m: f"number {_run(m['run'])}"),
    (r"#\s?(?=\d)|\b[Nn][Oo]\.\s?(?=\d)", "number "),
    (LEADING_ZERO, _spelled),
    (rf"(?<![A-Za-z]){_SIGN}\s?{_AMOUNT}{_SCALE}", _money),
    (rf"(?<![\w.,]){_AMOUNT}\s?(?P<sign>USD|HKD|GBP|EUR|CNY|RMB|JPY|€|£|¥)(?!\w)", _money),
    (r"(?<![\d.,])1,(\d{3})(?![\d,])", lambda m: f"1 thousand {int(m[1]) or ''}".rstrip()),  # or its one gets lost
    (rf"(?<![\d.,])(?P<run>\d{{9,}})(?<!000){_NO_AMOUNT}(?!{_COUNTS})", _spelled),
    (r"(?<![\d/])24/7(?![\d/])", "twenty four seven"),
    (r"(?<![\d/])50/50(?![\d/])", "fifty fifty"),
    (rf"(?<=[\ds])\s?/\s?({_EACH})\b", r" per \1"),
    # 9-5, 10:30-11:30, 9am-6pm, $5-$10, 30%-50%; not 2026-11-30
    (
        r"(?i)(?<![\d/.-])(\d+(?:[.:,]\d+)*)(\s?(?:[ap]\.?m\.?|%|dollars|euros|pounds|yuan))?\s?[-–—~]\s?"
        r"(?=\d+(?:[.:,]\d+)*(?![\d/]|-\d))",
        r"\1\2 to ",
    ),
    (rf"\b(?P<month>{_MONTHS})\.?\s(?P<day>[12]\d|3[01]|[1-9])(?!\d|[nrst][dht]|[:.,]\d|%)", _day),
    (r"(?<!\d)(1[1-9]|20)([1-9]0)s\b", r"\1 \2s"),  # 1990s
    (rf"(?<![\w.,])(?P<n>\d+(?:\.\d+)?)\s?(?P<unit>{_UNIT})(?![\w/²°])", _unit),
    (r"(\d+)['′’](\d+)(?:[\"″”]|'')", r"\1 foot \2"),
    (r"(?<=\d)\s?‰", " per thousand"),
    (r"(?<=\d)\+(?!\d)", " plus"),
    (r"\s?&\s?", " and "),
    (r"(?<=\w)\s?×\s?(?=\w)", " times "),
    (r"(?<=\w)\s?=\s?(?=\w)", " equals "),
)

"""Chinese figures: phone and order numbers digit by digit, money, ranges, where two is èr and where liǎng, signs."""

from __future__ import annotations

from pipeline.figures import CODE, INTERNATIONAL, LANDLINE, LEADING_ZERO, MOBILE, Match, Rules, one_by_one, rules

_DIGITS = dict(zip("0123456789", "零幺二三四五六七八九", strict=True))  # in a number that names a thing, 1 is yāo

_NUMBERED = (
    "(?:订单|运单|快递|物流|流水|工|单|编|房间|房|卡|账|帐|学|病历|预约|取件|车牌|航班|证件|会员|客户|身份证|信用卡|手机|电话|座机|分机|"
    "挂号|保单|发票|桌|QQ|微信)(?:单)?(?:号码?|码)|尾号|后[四六]位|验证码|取件码|密码|邮编|代码|房间|航班|分机|订单|编号|单号|拨打?|致电|"
    "热线|电话|客服|短信"
)
_BETWEEN = "[是为：:\\s]{0,3}"
_COUNTS = "(?![\\d]|[.,:：]\\d|\\s?[%％℃°元块万亿个件份笔次位名人条张台只天年月日号点分秒米克斤楼层条多])"

_CURRENCIES = {
    "¥": "元", "CN¥": "元", "CNY": "元", "RMB": "元", "$": "美元", "US$": "美元", "USD": "美元", "HK$": "港元",
    "HKD": "港元", "€": "欧元", "EUR": "欧元", "£": "英镑", "GBP": "英镑", "JPY": "日元",
}  # fmt: skip
_SIGN = r"(?P<sign>(?:US|HK)?\$|(?:CN)?¥|[€£]|(?:USD|HKD|GBP|EUR|CNY|RMB|JPY)(?=\s?\d))"
_SCALE = "(?P<scale>[百千]?[万亿])?"


def _spelled(match: Match) -> str:
    parts = match.groupdict()
    before = f"加{_run(parts['country'])}，" if parts.get("country") else parts.get("before") or ""
    return before + _run(match["run"])


def _run(run: str) -> str:
    return one_by_one(run, _DIGITS, "", "，")


def _money(match: Match) -> str:
    amount, scale = _number(match["amount"]), match.groupdict().get("scale") or ""
    return f"{amount}{scale}{_CURRENCIES[match['sign']]}"


def _number(written: str) -> str:
    """12.50 -> 12.5, 12.00 -> 12: of a price nobody reads the noughts."""
    whole, dot, rest = written.partition(".")
    rest = rest.rstrip("0")
    return whole + (dot + rest if rest else "")


CHINESE: Rules = rules(
    (r"(?<=\d),(?=\d{3}(?!\d))", ""),  # 1,234,567
    (r"(?<=\d)：(?=\d\d)", ":"),
    (INTERNATIONAL, _spelled),
    (MOBILE, _spelled),
    (LANDLINE, _spelled),
    (CODE, _spelled),
    (rf"(?P<before>(?:{_NUMBERED}){_BETWEEN})(?P<run>[A-Za-z]{{0,3}}-?\d{{3,}}(?:-\d+)*){_COUNTS}", _spelled),
    (r"#\s?(\d+)", r"\1号"),
    (r"\b[Nn][Oo]\.?\s?(?=\d)", "第"),
    (LEADING_ZERO, _spelled),
    (rf"{_SIGN}\s?(?P<amount>\d+(?:\.\d+)?){_SCALE}", _money),
    (rf"(?P<amount>\d+(?:\.\d+)?){_SCALE}\s?(?P<sign>USD|HKD|GBP|EUR|CNY|RMB|JPY|[¥€£$])(?![\dA-Za-z])", _money),
    (r"(\d+\.\d*?)0+(?=元|美元|块)", r"\1"),
    (r"(?<=\d)\.(?=元|美元|块)", ""),
    (rf"(?<![\d.])(?P<run>\d{{9,}})(?<!000){_COUNTS}", _spelled),
    (r"(?<![\d/])24/7(?![\d/])|(?<!\d)7/24(?!\d)", "全天候"),
    (r"(?<!\d)7\s?[xX×*]\s?24(?!\d)", "七乘24"),
    (r"(?<=\d)\s?(?:m2|m²)(?!\w)", "平方米"),
    # two: èr where it counts off, liǎng where it counts
    (r"第2(?![\d.])", "第二"),
    (r"(?<![\d.])2(?=[日号楼层室班路线栋座]|年级)", "二"),
    (r"(?<![\d.:])2(?=[点年])", "两"),
    (r"(?<=[A-Za-z])2(?!\d)", "二"),
    # 3-5天, 10:30-11:30, 30%-50%; not 2026-11-30
    (r"(?<![\d/.-])(\d+(?:[.:]\d+)*[%元天]?)\s?[-–—~～]\s?(?=\d+(?:[.:]\d+)*(?![\d/]|-\d))", r"\1到"),
    (r"(\d+(?:\.\d+)?)‰", r"千分之\1"),
    (r"(?<=\d)\+(?!\d)", "多"),
    (r"\s?&\s?", "和"),
    (r"(?<=[^\W\d_])\s?×\s?(?=[^\W_])", "乘"),
    (r"(?<=[^\W\d_])\s?=\s?(?=[^\W_])", "等于"),
    (r"(?<=[A-Za-z])\.(?=[A-Za-z])", "点"),  # acme.com
)

"""How a voice can be asked to speak: the instructions that Fun-CosyVoice 3 was trained on, and no others.

Others are read aloud by that model, and combined ones fail (found by running it). Source, word for word: the list
`instruct_list` of its source code (two more there, a cartoon character and a robot, are no way to answer a caller).
A manner also says in which language the caller is answered and listened to.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Manner:
    """One way of speaking."""

    instruction: str  # what the voice model is told, without its end mark
    en: str  # its name for the page
    zh: str
    hears: str = ""  # the language to listen with where it differs from the scenario's: "yue"
    writes: str = ""  # an instruction to the language model: how the reply is to be worded


def _dialect(region: str, en: str, zh: str, **more: str) -> Manner:
    return Manner(f"请用{region}话表达。", en, zh, **more)


MANNERS: dict[str, Manner] = {
    "cantonese": _dialect(
        "广东",
        "Cantonese",
        "粤语",
        hears="yue",
        writes="请用粤语口语书面形式（例如“唔该”“几时”“喺边度”）回答。",
    ),
    "northeastern": _dialect("东北", "Northeastern", "东北话"),
    "gansu": _dialect("甘肃", "Gansu", "甘肃话"),
    "guizhou": _dialect("贵州", "Guizhou", "贵州话"),
    "henan": _dialect("河南", "Henan", "河南话"),
    "hubei": _dialect("湖北", "Hubei", "湖北话"),
    "hunan": _dialect("湖南", "Hunan", "湖南话"),
    "jiangxi": _dialect("江西", "Jiangxi", "江西话"),
    "minnan": _dialect("闽南", "Minnan (Hokkien)", "闽南话"),
    "ningxia": _dialect("宁夏", "Ningxia", "宁夏话"),
    "shanxi": _dialect("山西", "Shanxi", "山西话"),
    "shaanxi": _dialect("陕西", "Shaanxi", "陕西话"),
    "shandong": _dialect("山东", "Shandong", "山东话"),
    "shanghai": _dialect("上海", "Shanghainese", "上海话"),
    "sichuan": _dialect("四川", "Sichuan", "四川话"),
    "tianjin": _dialect("天津", "Tianjin", "天津话"),
    "yunnan": _dialect("云南", "Yunnan", "云南话"),
    "loud": Manner("Please say a sentence as loudly as possible.", "Loud", "大声"),
    "soft": Manner("Please say a sentence in a very soft voice.", "Soft", "小声"),
    "fast": Manner("请用尽可能快地语速说一句话。", "Fast", "快速"),
    "slow": Manner("请用尽可能慢地语速说一句话。", "Slow", "慢速"),
    "happy": Manner("请非常开心地说一句话。", "Happy", "开心"),
    "sad": Manner("请非常伤心地说一句话。", "Sad", "伤心"),
    "angry": Manner("请非常生气地说一句话。", "Angry", "生气"),
}

"""Every tunable, once: unit, bounds, default, help. Sliders, `--set` and README's table are generated from here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError


def _tunable(
    default: Any, help_en: str, help_zh: str, *, unit: str = "", group: str, live: bool = True, **bounds: float
) -> Any:
    """A Field whose extra part tells the generators its unit, its group and whether it acts on a live session."""
    extra = {"unit": unit, "group": group, "live": live, "help_zh": help_zh}
    return Field(default, description=help_en, json_schema_extra=extra, **bounds)  # type: ignore[call-overload]


class Settings(BaseModel):
    """One frozen set of tunables. `changed(...)` gives the next one, validated."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # -- listening
    endpoint_floor_ms: int = _tunable(
        100,
        "Silence waited for when the caller surely has finished.",
        "确信说完时仍等待的静音时长。",
        unit="ms",
        group="listen",
        ge=0,
        le=1000,
    )
    endpoint_ceiling_ms: int = _tunable(
        950,
        "Silence waited for when the caller surely has not finished.",
        "确信没说完时等待的静音上限。",
        unit="ms",
        group="listen",
        ge=100,
        le=3000,
    )
    draft_after_ms: int = _tunable(
        40,
        "Silence after which recognition and the turn model run on what was said.",
        "静音多久后开始识别并判断是否说完。",
        unit="ms",
        group="listen",
        ge=20,
        le=500,
    )
    draft: bool = _tunable(
        True,
        "Begin the reply before the endpoint and hold it back until then.",
        "在判定说完之前就开始生成回复（先扣住不放）。",
        group="listen",
    )
    draft_early: bool = _tunable(
        True,
        "Begin the draft while the caller still speaks, as soon as a fact fits; it stands while the same fact does.",
        "说话中一旦匹配到资料就开始起草；资料不变则草稿继续有效。",
        group="listen",
    )
    partial_every_ms: int = _tunable(
        300,
        "How often the live transcript is refreshed while the caller speaks.",
        "说话时实时转写的刷新间隔。",
        unit="ms",
        group="listen",
        ge=100,
        le=2000,
    )
    speech_start_ms: int = _tunable(
        64,
        "Speech needed before the caller takes the floor.",
        "需要多长的语音才算开始说话。",
        unit="ms",
        group="listen",
        ge=32,
        le=500,
    )
    vad_threshold: float = _tunable(
        0.5,
        "Speech probability above which sound counts as speech.",
        "语音概率高于此值视为说话。",
        group="listen",
        ge=0.1,
        le=0.95,
    )
    max_utterance_s: int = _tunable(
        30,
        "A longer monologue is answered as it stands, with a notice.",
        "单次发言上限，超过即作答并提示。",
        unit="s",
        group="listen",
        ge=5,
        le=120,
    )
    barge_in: bool = _tunable(True, "Speaking over the reply stops it.", "回复播放时说话即打断。", group="listen")
    hold_ms: int = _tunable(
        240,
        "At the first sign of a voice the reply holds its breath for so long; then it is a barge-in or the reply goes"
        " on. 0 waits until it is known to be a voice.",
        "一有人声迹象，回复先停顿这么久；确认是人声则打断，否则接着说。0 表示确认后才停。",
        unit="ms",
        group="listen",
        ge=0,
        le=400,
    )
    headphones: bool = _tunable(
        False,
        "Headphones in use: the browser's echo cancellation is switched off.",
        "使用耳机：关闭浏览器回声消除。",
        group="listen",
        live=False,
    )

    # -- thinking
    max_sentences: int = _tunable(
        2, "Sentences after which a reply stops.", "回复最多几句话。", unit="sentences", group="think", ge=1, le=8
    )
    max_tokens: int = _tunable(
        64, "Tokens after which a reply stops.", "回复最多多少个词元。", unit="tokens", group="think", ge=8, le=512
    )
    temperature: float = _tunable(
        0.0,
        "Randomness of the reply; 0 always takes the likeliest word.",
        "回复的随机性，0 为总取最可能的词。",
        group="think",
        ge=0.0,
        le=1.5,
    )
    openers: bool = _tunable(
        True,
        "Where no reply is ready yet, begin with prepared words that suit what was said; answer a farewell and the wish"
        " for a person with the scenario's own. Marked as a cache hit.",
        "回复还没准备好时，先用预热时合成好、贴合来电内容的几个字开头；告别和转人工用场景备好的话回答。标为缓存命中。",
        group="think",
    )
    apologies: bool = _tunable(
        True,
        "Where a turn fails, say so aloud in prepared words: not understood, or something went wrong.",
        "某一轮失败时，用备好的话说出来：没听清，或出了问题。",
        group="think",
    )
    first_phrase_words: int = _tunable(
        4,
        "Words after which the first phrase may be spoken without waiting for punctuation.",
        "首个短语达到多少词即可开始合成，无需等到标点。",
        unit="words",
        group="think",
        ge=2,
        le=20,
    )

    # -- speaking
    speed: float = _tunable(1.0, "Pace of the voice.", "语速。", unit="x", group="speak", ge=0.5, le=2.0)
    voice: str = _tunable("", "Whose voice; empty is the engine's own.", "音色；留空为引擎默认。", group="speak")
    manner: str = _tunable(
        "",
        "Dialect or mood of the voice, from the next phrase on; for engines that have them.",
        "方言或情绪，下一句起生效；仅限支持的引擎。",
        group="speak",
    )

    # -- the budget on screen
    budget_listen_ms: int = _tunable(
        80, "Budget of listening.", "听的预算。", unit="ms", group="budget", ge=10, le=2000
    )
    budget_think_ms: int = _tunable(40, "Budget of thinking.", "想的预算。", unit="ms", group="budget", ge=10, le=2000)
    budget_speak_ms: int = _tunable(30, "Budget of speaking.", "说的预算。", unit="ms", group="budget", ge=10, le=2000)

    # -- safety
    asr_timeout_s: float = _tunable(
        5.0, "Recognition that takes longer fails the turn.", "识别超时。", unit="s", group="safety", ge=0.2, le=60
    )
    llm_timeout_s: float = _tunable(
        8.0,
        "A language model silent for longer fails the turn.",
        "语言模型超时。",
        unit="s",
        group="safety",
        ge=0.2,
        le=120,
    )
    tts_timeout_s: float = _tunable(
        5.0, "A voice silent for longer fails the turn.", "语音合成超时。", unit="s", group="safety", ge=0.2, le=60
    )

    # -- transport
    transport: Literal["tuned", "stock"] = _tunable(
        "tuned",
        "The tuned WebRTC path, or the libraries' own for comparison.",
        "调优的 WebRTC 通路，或库自带通路以作对比。",
        group="transport",
        live=False,
    )
    out_ptime_ms: Literal[10, 20] = _tunable(
        20, "Length of an outbound audio frame.", "下行音频帧长。", unit="ms", group="transport", live=False
    )

    # -- engines
    vad: str = _tunable("silero", "Voice activity engine.", "语音活动检测引擎。", group="engines", live=False)
    turn_model: str = _tunable(
        "smart-turn",
        "Turn model, or 'none' to go by silence alone.",
        "话轮模型；none 表示只看静音。",
        group="engines",
        live=False,
    )
    asr: str = _tunable("moonshine", "Speech recognition engine.", "语音识别引擎。", group="engines", live=False)
    llm: str = _tunable("smollm2-ort", "Language model engine.", "语言模型引擎。", group="engines", live=False)
    tts: str = _tunable("hibari", "Voice engine.", "语音合成引擎。", group="engines", live=False)
    scenario: str = _tunable(
        "shop-en", "Who answers, and what it knows.", "场景：由谁作答、知道什么。", group="engines"
    )
    threads: int = _tunable(
        2,
        "Inference threads of one engine call.",
        "单次推理线程数。",
        unit="threads",
        group="engines",
        live=False,
        ge=1,
        le=16,
    )

    llm_nice: int = _tunable(
        0,
        "How far the language model gives way when the cores are short (Linux); 0 is not at all.",
        "算力紧张时语言模型让出处理器的程度（Linux），0 为不让。",
        group="engines",
        live=False,
        ge=0,
        le=19,
    )
    device: Literal["auto", "cpu", "cuda"] = _tunable(
        "auto", "Where the article's models run.", "文章所用模型的运行设备。", group="engines", live=False
    )
    paraformer_chunk: Literal["0,10,5", "0,8,4"] = _tunable(
        "0,10,5",
        "Paraformer's window in 60 ms frames: 600 ms, or 480 ms for sooner and less certain words.",
        "Paraformer 的窗长（60 毫秒帧）：600 毫秒，或 480 毫秒（更快但把握更小）。",
        group="engines",
        live=False,
    )
    llm_model: str = _tunable(
        "",
        "Model of the transformers or openai engine: a preset, a directory, or a name the server knows.",
        "transformers 或 openai 引擎的模型：预设名、目录，或服务器上的模型名。",
        group="engines",
        live=False,
    )
    llm_url: str = _tunable(
        "",
        "Base address of an OpenAI-compatible server, such as http://127.0.0.1:8000/v1.",
        "OpenAI 兼容服务的地址，例如 http://127.0.0.1:8000/v1。",
        group="engines",
        live=False,
    )
    tts_model: str = _tunable(
        "",
        "Model name asked of a speech server; empty is the engine's own.",
        "语音服务的模型名；留空为引擎默认。",
        group="engines",
        live=False,
    )
    tts_url: str = _tunable(
        "",
        "Base address of an OpenAI-style speech server.",
        "OpenAI 风格语音服务的地址。",
        group="engines",
        live=False,
    )
    first_hop_tokens: int = _tunable(
        25,
        "Speech tokens before CosyVoice's first chunk (25 are a second): the article's chunk size.",
        "CosyVoice 首个音频块的语音词元数（25 个为一秒），即文章中的块大小。",
        unit="tokens",
        group="engines",
        live=False,
        ge=5,
        le=100,
    )
    manners: str = _tunable(
        "",
        "Dialects and moods prepared at warm-up, with commas between them: switching to one costs nothing then.",
        "预热时准备好的方言与情绪，用逗号分隔；切换时几乎不耗时。",
        group="engines",
        live=False,
    )

    def changed(self, **values: Any) -> Settings:
        """The next settings. ValueError names the setting, its bounds and what was given."""
        return _validated({**self.model_dump(), **values})


@dataclass(frozen=True, slots=True)
class Tunable:
    """One setting as the generators see it."""

    name: str
    default: Any
    unit: str
    group: str
    live: bool  # acts on a running session without reconnecting
    low: float | None
    high: float | None
    choices: tuple[Any, ...]
    help_en: str
    help_zh: str

    def help(self, lang: str) -> str:
        return self.help_zh if lang == "zh" else self.help_en


def tunables() -> tuple[Tunable, ...]:
    """Every setting, in the order of the model."""
    return tuple(_tunable_of(name) for name in Settings.model_fields)


def _tunable_of(name: str) -> Tunable:
    info = Settings.model_fields[name]
    extra = info.json_schema_extra
    assert isinstance(extra, dict)
    bounds = {k: getattr(m, k) for m in info.metadata for k in ("ge", "le") if hasattr(m, k)}
    choices = get_args(info.annotation) if get_origin(info.annotation) is Literal else ()
    return Tunable(
        name=name,
        default=info.default,
        unit=str(extra["unit"]),
        group=str(extra["group"]),
        live=bool(extra["live"]),
        low=bounds.get("ge"),
        high=bounds.get("le"),
        choices=choices,
        help_en=info.description or "",
        help_zh=str(extra["help_zh"]),
    )


def parse_set(pairs: Iterable[str], base: Settings | None = None) -> Settings:
    """`["endpoint_floor_ms=150", "draft=false"]` over `base`: what --set gives. ValueError in plain words."""
    values: dict[str, str] = {}
    for pair in pairs:
        name, eq, value = pair.partition("=")
        if not eq:
            raise ValueError(f"--set takes NAME=VALUE, not {pair!r}")
        values[name.strip().replace("-", "_")] = value.strip()
    return _validated({**(base or Settings()).model_dump(), **values})


def _validated(values: Mapping[str, Any]) -> Settings:
    # Literal[10, 20] would refuse the string a command line gives.
    coerced = dict(values)
    for name, value in values.items():
        choices = {str(c): c for c in _choices(name)}
        if isinstance(value, str) and value in choices:
            coerced[name] = choices[value]
    try:
        settings = Settings.model_validate(coerced)
    except ValidationError as error:
        raise ValueError("; ".join(_in_words(e) for e in error.errors())) from None
    if settings.endpoint_floor_ms > settings.endpoint_ceiling_ms:
        raise ValueError("endpoint_floor_ms is above endpoint_ceiling_ms: lower the floor or raise the ceiling")
    return settings


def _choices(name: str) -> tuple[Any, ...]:
    return _tunable_of(name).choices if name in Settings.model_fields else ()


def _in_words(error: Any) -> str:
    name = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"there is no setting named {name}; `python -m pipeline bench --help` lists them"
    return f"{name}: {error['msg'].lower()}, not {error['input']!r}"


def settings_table(lang: str = "en") -> str:
    """README's table, as Markdown."""
    head = {"en": ("setting", "default", "range", "what it does"), "zh": ("设置", "默认", "范围", "作用")}[lang]
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * 4]
    for t in tunables():
        span = " / ".join(str(c) for c in t.choices) or (f"{t.low:g} to {t.high:g}" if t.low is not None else "")
        default = str(t.default).lower() if isinstance(t.default, bool) else f"{t.default}"
        rows.append(f"| `{t.name}` | {default} {t.unit}".rstrip() + f" | {span} | {t.help(lang)} |")
    return "\n".join(rows)

"""Every visible text of the pages, in English and Chinese. A page writes no sentence of its own."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.ui.engine_words import ENGINES
from pipeline.ui.remedies import Advice, of_error, of_notice
from pipeline.ui.setting_words import SETTINGS, UNITS

__all__ = ["LANGUAGES", "Advice", "of_error", "of_notice", "pairs", "say", "setting_name", "unit"]

LANGUAGES: Mapping[str, str] = {"en": "English", "zh": "中文"}

# key: (English, Chinese). {name} stands for a value given to `say`.
_TEXT: dict[str, tuple[str, str]] = {
    # -- the frame around the pages
    "title": ("Turnaround", "Turnaround"),
    "tagline": (
        "Speak, and hear the answer. Every millisecond is on screen.",
        "实时语音对话：开口就有回应，每一毫秒都看得见。",
    ),
    "language": ("Language", "语言"),
    "page.conversation": ("Conversation", "对话"),
    "page.latency": ("Latency", "时延分析"),
    # -- the call
    "call.idle": ("Not connected", "未连接"),
    "call.connecting": ("Connecting", "正在连接"),
    "call.listening": ("Connected: go ahead and speak", "已接通，请说话"),
    "call.hearing": ("Listening to you", "正在听您说"),
    "call.answering": ("Answering", "正在回答"),
    "call.sample": ("A sample caller is on the line", "示例来电进行中"),
    "call.level": ("Microphone level", "麦克风音量"),
    "call.level-none": ("No sound arrives yet", "还没有收到声音"),
    "call.before-start": (
        "Press START and allow the microphone when the browser asks.",
        "点“开始”，并在浏览器询问时允许使用麦克风。",
    ),
    "call.none": (
        "No microphone was found. Plug one in and press START again, or let a sample caller speak below.",
        "没有找到麦克风。请接好麦克风后再点“开始”，或播放下面的示例来电。",
    ),
    "call.busy": (
        "Another program is using the microphone. Close it, then press START again.",
        "麦克风正被其他程序占用。请先关闭那个程序，再点“开始”。",
    ),
    "call.lost": (
        "The connection was lost. What was said is still here: press START to go on.",
        "连接中断了，对话内容仍在。请点“开始”继续。",
    ),
    "call.timeout": (
        "The server took too long to answer. Press START again.",
        "服务器响应太慢，请再点一次“开始”。",
    ),
    "call.unreachable": (
        "No way through the network was found; it may block WebRTC, and a TURN server is needed. The sample caller "
        "below works without a connection.",
        "网络无法连通，可能拦截了 WebRTC，需要配置 TURN 服务器。下面的示例来电不需要连接，可以直接播放。",
    ),
    "call.refused": (
        "The browser did not give us the microphone. Click the lock beside the address, allow the microphone, then "
        "press START again. Without a microphone, let a sample caller speak below.",
        "浏览器没有开放麦克风。请点击地址栏旁的锁形图标，允许使用麦克风，再点“开始”。没有麦克风也可以播放下面的示例来电。",
    ),
    "call.failed": (
        "The connection could not be made. Press START again; the sample caller below works without a connection.",
        "连接没有建立，请再点一次“开始”。下面的示例来电不需要连接，可以直接播放。",
    ),
    "call.insecure": (
        "Browsers give the microphone to https pages and to localhost only. Open this page through https.",
        "浏览器只对 https 页面和本机（localhost）开放麦克风，请通过 https 打开本页。",
    ),
    "call.start": ("START", "开始"),
    # -- warm-up
    "warm.title": ("Getting the engines ready", "正在准备引擎"),
    "warm.wait": (
        "The models are loaded once for everybody; after that the page starts at once.",
        "模型只需加载一次，之后打开页面即可使用。",
    ),
    "warm.failed": ("The engines could not be loaded", "引擎加载失败"),
    "warm.retry": ("Try again", "重试"),
    "error.code": ("Code:", "错误码："),
    "error.do": ("What to do:", "怎么办："),
    "error.detail": ("Detail:", "详情："),
    "visit.idle-closed": (
        "This conversation was closed after a long while without a word, to make room for others.",
        "会话长时间没有声音，已自动关闭，把位置让给其他体验者。",
    ),
    "visit.again": ("Start afresh", "重新开始"),
    # -- the conversation
    "talk.heading": ("Conversation", "对话内容"),
    "talk.empty": (
        "Nothing has been said yet. Press START and ask, for example: “What are your opening hours on Saturday?”",
        "还没有对话。点“开始”，然后提问，例如：“What are your opening hours on Saturday?”",
    ),
    "talk.go-ahead": (
        "I am listening. Ask, for example: “What are your opening hours on Saturday?”",
        "我在听，请提问，例如：“What are your opening hours on Saturday?”",
    ),
    "talk.empty-sample": (
        "No microphone? Let a sample caller speak, further down.",
        "没有麦克风？可以在下方播放示例来电。",
    ),
    "talk.you": ("Caller", "来电者"),
    "talk.reply": ("Reply", "回复"),
    "talk.hearing": ("listening …", "正在听……"),
    "talk.thinking": ("thinking …", "正在想……"),
    "talk.interrupted": ("Interrupted: the struck part was not spoken", "已被打断：划线部分没有说出来"),
    "talk.interrupted-before": ("Interrupted before a word was spoken", "还没开口就被打断"),
    "talk.no-words": ("(no words)", "（没有听到内容）"),
    "talk.older": ("{n} earlier turns are on the Latency page", "更早的 {n} 轮见“时延分析”页"),
    "talk.measured": (
        "{total} ms: listen {listen} · think {think} · speak {speak}",
        "{total} 毫秒：听 {listen} · 想 {think} · 说 {speak}",
    ),
    "turn.n": ("Turn {n}", "第 {n} 轮"),
    "mood.happy": ("sounding happy", "听起来高兴"),
    "mood.sad": ("sounding sad", "听起来难过"),
    "mood.angry": ("sounding angry", "听起来生气"),
    "mood.fearful": ("sounding afraid", "听起来害怕"),
    "mood.disgusted": ("sounding disgusted", "听起来反感"),
    "mood.surprised": ("sounding surprised", "听起来惊讶"),
    "label.draft": ("draft", "提前起草"),
    "label.cached": ("cache hit", "命中缓存"),
    "label.within": ("inside the budget", "达标"),
    "label.over": ("over the budget", "超时"),
    # -- the trade between speed and interruptions
    "trade.heading": ("Speed against interruptions", "快慢与打断的取舍"),
    "trade.about": (
        "Each point is one setting, measured on recorded callers. Lower left is better: faster, and fewer callers cut "
        "off in a pause.",
        "每个点是一组设置，用来电录音实测。越靠左下越好：更快，也更少在停顿处误打断。",
    ),
    "trade.empty": (
        "No sweep has been measured yet. Run `python -m pipeline sweep --over endpoint_floor_ms=80,120,200,400 "
        "--compare --json runs/sweep.json`, then choose the file here.",
        "还没有扫描数据。请运行 `python -m pipeline sweep --over endpoint_floor_ms=80,120,200,400 --compare "
        "--json runs/sweep.json`，再回到这里选择文件。",
    ),
    "trade.file": ("Sweep", "数据文件"),
    "trade.bad": (
        "This file cannot be shown: it is not the JSON of a sweep.",
        "无法显示：这不是扫描生成的 JSON 文件。",
    ),
    "trade.front": ("Pareto front", "帕累托前沿"),
    "trade.default": ("default", "默认设置"),
    "trade.serial": ("serial", "串行"),
    "trade.pipelined": ("pipelined", "流水线"),
    "trade.x": ("milliseconds from last sound to first sound", "话音结束到首个声音的毫秒数"),
    "trade.y": ("callers cut in upon", "误打断率"),
    "trade.alt": (
        "False cut-ins against latency, one point a setting, with the Pareto front.",
        "误打断率与时延的对照，每个点是一组设置，并标出帕累托前沿。",
    ),
    "trade.on-front": (
        "The default answers after {p50} ms (p50) and cuts in upon {cut} of the callers, over {n} turns: no measured "
        "setting is faster without cutting in more.",
        "默认设置的 p50 为 {p50} 毫秒，误打断率 {cut}（{n} 轮）：没有哪组设置能在不多打断的前提下更快。",
    ),
    "trade.beaten": (
        "The default answers after {p50} ms (p50) and cuts in upon {cut} of the callers, over {n} turns; on these "
        "callers “{name}” was at least as good in both.",
        "默认设置的 p50 为 {p50} 毫秒，误打断率 {cut}（{n} 轮）；在这批来电上，“{name}”两方面都不逊色。",
    ),
    "trade.label": ("{name}: {p50} ms, {cut} cut in upon", "{name}：{p50} 毫秒，误打断 {cut}"),
    "trade.point": ("Point", "选择一个点"),
    "trade.use": ("Use this point", "采用这组设置"),
    "trade.used": ("In use now: {name}", "已采用：{name}"),
    "trade.serial-only": (
        "The serial order is measured for comparison; a running conversation cannot switch to it.",
        "串行方式仅供对比，正在进行的会话无法切换。",
    ),
    # -- why a turn was over the budget
    "blame.heading": ("Why turns were slow", "超时原因"),
    "blame.about": ("Turns over the budget, by reason.", "超出预算的轮次，按原因统计。"),
    "blame.line": ("{ms} ms over, mostly in {stage}:", "超出 {ms} 毫秒，主要在“{stage}”："),
    "blame.turns": ("· turns: {n}", "· {n} 轮"),
    "blame.none": ("No turn was over the budget.", "没有超出预算的轮次。"),
    # -- why a span is nothing
    "why.think-draft": (
        "think is 0: the reply was drafted while you paused, and waited for you to finish",
        "“想”为 0：回复在您停顿时已起草好，只等您说完",
    ),
    "why.think": ("think is 0: the first phrase was ready at once", "“想”为 0：第一个短语立刻就绪"),
    "why.speak-cached": ("speak is 0: the first sound came out of the cache", "“说”为 0：首段声音取自缓存"),
    "why.speak-draft": ("speak is 0: the sound had been made in advance", "“说”为 0：声音已提前合成好"),
    "why.speak": ("speak is 0: the sound was ready at once", "“说”为 0：声音立刻就绪"),
    "why.listen": ("listen is 0: the end was decided at the last syllable", "“听”为 0：话音刚落就已判定说完"),
    # -- figures
    "fig.heading": ("Where the milliseconds went", "时间花在哪里"),
    "fig.empty": (
        "After the first answer you see here how long listening, thinking and speaking took.",
        "得到第一次回答后，这里会显示听、想、说各用了多久。",
    ),
    "fig.listen": ("listen", "听"),
    "fig.think": ("think", "想"),
    "fig.speak": ("speak", "说"),
    "fig.total": ("total", "总计"),
    "fig.budget": ("Budget", "预算"),
    "fig.line": ("{ms} ms budget", "预算 {ms} 毫秒"),
    "fig.ms": ("milliseconds after the last syllable", "话音结束后的毫秒数"),
    "fig.ms-short": ("ms", "毫秒"),
    "fig.alt-waterfall": (
        "For each turn, how many milliseconds listening, thinking and speaking took, against the budget.",
        "每一轮的听、想、说各用了多少毫秒，并与预算对照。",
    ),
    "fig.alt-distribution": ("Distribution of each span over all turns.", "各阶段用时在所有轮次上的分布。"),
    "fig.alt-trend": ("Total of each turn over time.", "每一轮总用时的变化。"),
    "fig.turn": ("turn", "轮次"),
    "fig.median": ("running median", "滑动中位数"),
    "num.turns": ("Measured turns", "已测轮次"),
    "num.share": ("Inside {ms} ms", "{ms} 毫秒内"),
    "num.p50": ("p50", "中位数 p50"),
    "num.p95": ("p95", "p95"),
    "num.p99": ("p99", "p99"),
    "num.few": (
        "Based on {n} turns: with fewer than 20, p95 and p99 say little.",
        "共 {n} 轮；少于 20 轮时，p95 和 p99 仅供参考。",
    ),
    "health.heading": ("How the machine copes", "运行状况"),
    "health.help": ("What these figures mean", "这些数字是什么意思"),
    "health.underruns": ("Gaps in the sound", "播放断流"),
    "health.underruns-help": (
        "Moments when the reply should have sounded and no audio was ready.",
        "该出声时音频还没准备好的次数。",
    ),
    "health.false": ("False starts", "误触发"),
    "health.false-help": ("Turns begun by something that was not words.", "由非语音声音引起的轮次。"),
    "health.drafts": ("Drafts dropped", "作废草稿"),
    "health.drafts-help": (
        "Replies begun early and dropped because the caller went on, of all drafts.",
        "提前起草但因对方继续说话而作废的回复，占全部草稿。",
    ),
    "health.each": ("Drafts a turn", "每轮草稿"),
    "health.each-help": ("Replies begun before you had finished, per turn.", "平均每轮在您说完前起草几次。"),
    "health.hits": ("Draft hits", "草稿命中"),
    "health.hits-help": ("Drafts that became the reply, of all drafts.", "最终用上的草稿，占全部草稿。"),
    "health.tokens": ("Wasted tokens", "浪费词元"),
    "health.tokens-help": ("Tokens of the drafts that were dropped.", "作废草稿的词元数。"),
    "health.wasted": ("Wasted CPU", "浪费 CPU"),
    "health.wasted-help": (
        "An estimate: how long the language model and the voice were busy with drafts that were dropped.",
        "估算值：语言模型与语音合成为作废草稿工作的时长。",
    ),
    "health.cpu": ("CPU", "CPU 占用"),
    "health.cpu-help": (
        "Of one core; more than 100 % is more than one core.",
        "以单核计，超过 100% 表示用了不止一个核。",
    ),
    "health.rss": ("Memory", "内存"),
    "health.late": ("Late slots", "发送偏晚"),
    "health.late-help": (
        "Outbound audio frames sent more than 8 ms late, of all.",
        "晚于 8 毫秒发出的音频帧，占全部。",
    ),
    "health.dropped": ("Capture dropped", "采集丢弃"),
    "health.dropped-help": (
        "Pieces of your speech that were lost because the queue was full.",
        "因队列已满而丢失的语音片段。",
    ),
    # -- the sample caller
    "sample.heading": ("No microphone? Let a sample caller speak", "没有麦克风？播放示例来电"),
    "sample.about": (
        "The clip goes through the very same engines, in real time.",
        "录音会实时经过与麦克风完全相同的处理流程。",
    ),
    "sample.choose": ("Caller", "选择来电"),
    "sample.play": ("Let the caller speak", "播放来电"),
    "sample.upload": ("Or upload your own clip", "或上传自己的录音"),
    "sample.upload-help": ("WAV, FLAC or OGG, at most {mb} MB", "支持 WAV、FLAC、OGG，最大 {mb} MB"),
    "sample.too-big": ("This file is over {mb} MB. Use a shorter clip.", "文件超过 {mb} MB，请换一段短一些的录音。"),
    "sample.play-own": ("Play my clip", "播放我的录音"),
    "sample.running": ("The caller speaks; follow the conversation above.", "来电进行中，请看上方的对话。"),
    "sample.running-call": (
        "The caller speaks and the reply is heard in your call. Your microphone is paused meanwhile.",
        "来电进行中，回复会在通话里播放；此时您的麦克风暂停收音。",
    ),
    "sample.done": (
        "What was said, as it happened: the gap between question and answer is the real one.",
        "对话实录：问与答之间的间隔就是真实的等待时间。",
    ),
    "sample.silent": (
        "No reply was spoken this time; the conversation above says why.",
        "这次没有语音回复，原因见上方的对话。",
    ),
    "sample.language": (
        "This caller speaks {spoken}; the recognition engine {engine} knows {known} only, so expect nonsense.",
        "这段来电说的是{spoken}，而识别引擎 {engine} 只懂{known}，识别结果会不准。",
    ),
    "sample.stop": ("Stop the caller", "停止播放"),
    "sample.origin": (
        "Synthetic voices (Kokoro-82M, Apache-2.0); nobody real speaks here.",
        "合成语音（Kokoro-82M，Apache-2.0），非真人录音。",
    ),
    "kind.plain": ("", ""),
    "kind.number": ("numbers", "数字"),
    "kind.pause": ("with a pause", "中间停顿"),
    "kind.noise": ("noisy", "有噪声"),
    "kind.quiet": ("quiet", "音量小"),
    "kind.fast": ("fast", "语速快"),
    "lang.en": ("English", "英语"),
    "lang.zh": ("Mandarin", "普通话"),
    "lang.yue": ("Cantonese", "粤语"),
    "lang.any": ("any language", "任何语言"),
    # -- settings
    "set.heading": ("Settings", "设置"),
    "set.about": ("They act at once, also during a call.", "立即生效，通话中也可调整。"),
    "set.reset": ("Reset to defaults", "恢复默认"),
    "set.later": ("After reconnecting", "重新连接后生效"),
    "set.apply": ("Apply and reconnect", "应用并重新连接"),
    "set.apply-help": ("Ends a running call.", "会结束当前通话。"),
    "set.refused": ("This combination does not work, so the last good one stays.", "这组设置不可用，已保留上一组。"),
    "set.floor-ceiling": (
        "The wait after a surely finished sentence must not be above the wait after an unfinished one. Lower the "
        "first or raise the second.",
        "“确信说完的等待”不能大于“没说完的等待”，请调低前者或调高后者。",
    ),
    "group.listen": ("Listening", "听"),
    "group.think": ("Thinking", "想"),
    "group.speak": ("Speaking", "说"),
    "group.budget": ("Budget on screen", "预算"),
    "group.safety": ("Time limits", "超时保护"),
    "group.transport": ("Transport", "传输"),
    "group.engines": ("Engines and scenario", "引擎与场景"),
    # -- the Latency page
    "lat.heading": ("Latency of this visit", "本次体验的时延"),
    "lat.empty": (
        "No turn has been measured yet. Go to the conversation, press START and speak, or let a sample caller speak.",
        "还没有测到任何一轮。请到“对话”页点“开始”说话，或播放示例来电。",
    ),
    "lat.go": ("Go to the conversation", "去对话"),
    "lat.refresh": ("New turns appear here by themselves.", "新的轮次会自动出现在这里。"),
    "lat.one": ("One turn in detail", "单轮详情"),
    "lat.waterfalls": ("Every turn", "每一轮"),
    "lat.distribution": ("Spread of each stage", "各阶段分布"),
    "lat.trend": ("Over time", "变化趋势"),
    "lat.table": ("All figures", "全部数据"),
    "lat.csv": ("Download CSV", "下载 CSV"),
    "lat.parquet": ("Download Parquet", "下载 Parquet"),
    "lat.privacy": (
        "The files hold what was said; nothing of it outlives your visit here.",
        "文件包含对话内容；离开后服务器不保留。",
    ),
    "col.turn": ("Turn", "轮次"),
    "col.heard": ("Heard", "听到的内容"),
    "col.reply": ("Reply", "回复"),
    "col.outcome": ("Outcome", "结果"),
    "col.listen": ("Listen, ms", "听（毫秒）"),
    "col.think": ("Think, ms", "想（毫秒）"),
    "col.speak": ("Speak, ms", "说（毫秒）"),
    "col.total": ("Total, ms", "总计（毫秒）"),
    "col.drafted": ("Draft", "起草"),
    "col.cached": ("Cache hit", "缓存"),
    "col.problem": ("Problem", "问题"),
    "state.hearing": ("listening", "正在听"),
    "state.paused": ("paused", "停顿"),
    "state.committed": ("thinking", "正在想"),
    "state.speaking": ("answering", "正在答"),
    "state.answered": ("answered", "已回答"),
    "state.interrupted": ("interrupted", "被打断"),
    "state.failed": ("failed", "失败"),
    **ENGINES,
}


MOODS = frozenset(key.removeprefix("mood.") for key in _TEXT if key.startswith("mood."))


def _side(lang: str) -> int:
    return 1 if lang == "zh" else 0


def say(key: str, lang: str, **values: object) -> str:
    """The text `key` in `lang` ("en" or "zh"), its {names} filled in. KeyError for a key that does not exist."""
    text = _TEXT[key][_side(lang)]
    return text.format(**values) if values else text


def setting_name(name: str, lang: str) -> str:
    """The short label of a setting; its own name for one that is newer than this table."""
    return SETTINGS[name][_side(lang)] if name in SETTINGS else name


def unit(name: str, lang: str) -> str:
    """A unit of settings.Tunable in words; as it stands when it is not in the table."""
    return UNITS[name][_side(lang)] if name in UNITS else name


def pairs() -> Mapping[str, Mapping[str, tuple[str, str]]]:
    """All tables of pairs, so that a test can see that nothing is missing in either language."""
    return {"text": _TEXT, "settings": SETTINGS, "units": UNITS}

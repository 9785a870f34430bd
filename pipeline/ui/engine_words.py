"""The words of the Engines page and of engines that are missing, in English and Chinese."""

from __future__ import annotations

ENGINES: dict[str, tuple[str, str]] = {
    "page.engines": ("Engines", "引擎"),
    "eng.heading": ("Engines", "引擎"),
    "eng.about": (
        "What can listen, think and speak here: what each needs, what of it this machine has, how to get the rest.",
        "这里列出可用来听、想、说的引擎：各自需要什么、本机已有什么、缺的怎样获取。",
    ),
    "eng.folder": (
        "Models lie in {folder}; {free} free there. In a terminal: python -m pipeline download NAME",
        "模型存放在 {folder}，该处剩余空间 {free}。也可在终端运行：python -m pipeline download 名称",
    ),
    "eng.off": (
        "Downloads from this page are off, as on every server for others. The operator fetches models with the "
        "commands below, or starts the page with TURNAROUND_DOWNLOADS=1.",
        "本页未开放下载（面向他人的服务器默认关闭）。请运营者用下面的命令获取模型，"
        "或用 TURNAROUND_DOWNLOADS=1 启动本页。",
    ),
    "stage.vad": ("Noticing speech", "语音检测"),
    "stage.turn": ("Knowing when you have finished", "判断说完"),
    "stage.asr": ("Recognising speech", "语音识别"),
    "stage.llm": ("Language model", "语言模型"),
    "stage.tts": ("Voice", "语音合成"),
    "eng.in-use": ("in use", "使用中"),
    "eng.ready": ("ready", "可用"),
    "eng.missing": ("not ready", "未就绪"),
    "eng.at-start": ("fetched by its first start", "首次启动时获取"),
    "eng.damaged": ("damaged", "已损坏"),
    "eng.licence": ("Licence", "许可"),
    "eng.languages": ("Languages", "语言"),
    "eng.size": ("Weights", "权重"),
    "eng.no-weights": ("none here", "无需下载"),
    "eng.packages": ("Python packages:", "Python 软件包："),
    "eng.key": (
        "A key or folder, in the environment or in .streamlit/secrets.toml:",
        "密钥或目录（环境变量或 .streamlit/secrets.toml）：",
    ),
    "eng.model": ("{name} · {size} · {licence}", "{name} · {size} · {licence}"),
    "eng.absent": ("not on this machine", "本机没有"),
    "eng.half": ("downloaded in part", "只下载了一部分"),
    "eng.broken": ("damaged", "已损坏"),
    "eng.whole": ("present", "已就绪"),
    "eng.choose-one": (
        "One of these is enough; the setting {setting} names it.",
        "任选一个即可，由设置项 {setting} 指定。",
    ),
    "get.start": ("Download ({size})", "下载（{size}）"),
    "get.resume": ("Go on downloading", "继续下载"),
    "get.repair": ("Download again what is damaged", "重新下载损坏的部分"),
    "get.cancel": ("Cancel", "取消"),
    "get.begin": ("Asking the hub", "正在连接模型社区"),
    "get.waiting": ("Another download of it is running; waiting", "另一处正在下载，等待中"),
    "get.checking": ("Checking what is there: {share} %", "正在校验已有文件：{share} %"),
    "get.fetching": ("{done} of {total} · {share} %{pace}", "{done} / {total} · {share} %{pace}"),
    "get.stopped": (
        "Stopped. What has arrived is kept; the next download goes on from there.",
        "已取消。已下载的部分会保留，下次从这里继续。",
    ),
    "profile.heading": ("Profile", "配置方案"),
    "profile.about": (
        "A set of engines and a scenario. Using one ends a running call.",
        "一组引擎加一个场景；切换会结束当前通话。",
    ),
    "profile.use": ("Use this profile", "使用此方案"),
    "profile.bad": ("The profile asked for cannot be used", "指定的配置方案不可用"),
    "profile.embedded": ("embedded: runs anywhere, English", "embedded：随处可跑，英语"),
    "profile.article": (
        "article: FunASR, Qwen, CosyVoice 3; Mandarin and dialects",
        "article：FunASR、Qwen、CosyVoice 3，普通话与方言",
    ),
    "profile.hosted": (
        "hosted: language model and voice at a service, Mandarin",
        "hosted：语言模型与语音用云服务，普通话",
    ),
    "miss.heading": ("Some of the chosen engines cannot start here", "所选引擎中有的无法在本机启动"),
    "miss.about": (
        "Nothing is replaced behind your back: get what is missing, or choose the embedded engines.",
        "系统不会擅自替换引擎：请补齐缺少的部分，或改用内置引擎。",
    ),
    "miss.line": ("{stage}: {engine}", "{stage}：{engine}"),
    "miss.while": ("while loading {engine}", "加载 {engine} 时"),
    "miss.embedded": ("Use the embedded engines instead", "改用内置引擎"),
    "miss.page": ("See all engines and what they need", "查看全部引擎及所需条件"),
    "warm.elapsed": (
        "{what}: {s} s so far. Large libraries and models take up to a minute the first time.",
        "{what}：已用 {s} 秒。较大的库和模型首次加载可能需要一分钟。",
    ),
    "lang.ja": ("Japanese", "日语"),
    "lang.ko": ("Korean", "韩语"),
    "lang.de": ("German", "德语"),
    "lang.es": ("Spanish", "西班牙语"),
    "lang.fr": ("French", "法语"),
    "lang.it": ("Italian", "意大利语"),
    "lang.ru": ("Russian", "俄语"),
    "lang.pt": ("Portuguese", "葡萄牙语"),
}

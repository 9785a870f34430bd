"""For every error and every notice: what happened and what to do, in plain words of both languages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.blame import Reason
from pipeline.errors import Code
from pipeline.events import NoticeCode


@dataclass(frozen=True, slots=True)
class Advice:
    """What happened, and what the reader can do about it."""

    what: str
    do: str


_ERRORS: dict[Code, tuple[Advice, Advice]] = {
    Code.NOTHING_HEARD: (
        Advice("I heard a sound but no words in it.", "Say it again, a little closer to the microphone."),
        Advice("听到了声音，但没有听清内容。", "请靠近麦克风再说一遍。"),
    ),
    Code.BAD_AUDIO: (
        Advice("The sound is damaged.", "Record or export it again, as 16-bit PCM."),
        Advice("音频数据已损坏。", "请重新录制，或重新导出为 16 位 PCM 格式。"),
    ),
    Code.UNREADABLE_FILE: (
        Advice("This file cannot be read as sound.", "Use a WAV, FLAC or OGG file of at most 30 minutes."),
        Advice("这个文件无法作为音频读取。", "请换用 WAV、FLAC 或 OGG 文件，时长不超过 30 分钟。"),
    ),
    Code.TOO_SHORT: (
        Advice("This clip is too short to hold a word.", "Use one of at least a tenth of a second."),
        Advice("这段录音太短，听不出内容。", "请使用不短于 0.1 秒的录音。"),
    ),
    Code.ASR_FAILED: (
        Advice("Speech recognition failed.", "Say it again. If it keeps failing, reconnect or choose another engine."),
        Advice("语音识别出错。", "请再说一遍；如果反复出错，请重新连接，或换用其他识别引擎。"),
    ),
    Code.ASR_TIMEOUT: (
        Advice("Speech recognition took too long.", "Say it again. If it happens often, the machine is overloaded."),
        Advice("语音识别超时。", "请再说一遍；如果经常出现，说明机器负载过高。"),
    ),
    Code.LLM_FAILED: (
        Advice("The language model failed, so there is no reply.", "Ask again. If it keeps failing, reconnect."),
        Advice("语言模型出错，没有生成回复。", "请再问一次；如果反复出错，请重新连接。"),
    ),
    Code.LLM_TIMEOUT: (
        Advice("The language model took too long to answer.", "Ask again, or raise its time limit in the settings."),
        Advice("语言模型迟迟没有作答。", "请再问一次，或在设置里调高它的超时时间。"),
    ),
    Code.LLM_EMPTY: (
        Advice("The language model answered with nothing that can be spoken.", "Ask in other words."),
        Advice("语言模型没有给出可以朗读的内容。", "请换一种说法再问。"),
    ),
    Code.TTS_FAILED: (
        Advice("The voice failed; the reply is there as text only.", "Ask again. If it keeps failing, reconnect."),
        Advice("语音合成出错，回复只有文字。", "请再问一次；如果反复出错，请重新连接。"),
    ),
    Code.TTS_TIMEOUT: (
        Advice("The voice took too long; the reply is there as text only.", "Ask again, or raise its time limit."),
        Advice("语音合成超时，回复只有文字。", "请再问一次，或在设置里调高它的超时时间。"),
    ),
    Code.TTS_EMPTY: (
        Advice("The voice made no sound for this reply.", "Read the text, or ask in other words."),
        Advice("这条回复没有合成出声音。", "请直接阅读文字，或换一种说法再问。"),
    ),
    Code.UNKNOWN_MANNER: (
        Advice("The voice cannot speak in this manner.", "Choose one from the list in the settings."),
        Advice("该音色不支持这种说话方式。", "请在设置的列表里选择。"),
    ),
    Code.VAD_FAILED: (
        Advice("The part that notices speech failed.", "Stop the call and start it again."),
        Advice("语音活动检测出错。", "请结束通话后重新开始。"),
    ),
    Code.INTERNAL: (
        Advice("Something unexpected went wrong in the program.", "Try again. If it returns, report the detail below."),
        Advice("程序内部出现意外错误。", "请重试；如果再次出现，请把下面的详情反馈给我们。"),
    ),
    Code.WEIGHTS_MISSING: (
        Advice("The files of a model are missing.", "Install them with the command in the detail below, then retry."),
        Advice("缺少模型文件。", "请按下面详情里的命令安装，然后重试。"),
    ),
    Code.WEIGHTS_CORRUPT: (
        Advice("The files of a model are damaged.", "Remove and install them again as the detail says, then retry."),
        Advice("模型文件已损坏。", "请按下面的详情删除并重新安装，然后重试。"),
    ),
    Code.PACKAGE_MISSING: (
        Advice("A Python package that an engine needs is missing.", "Install it as the detail says, then retry."),
        Advice("缺少引擎所需的 Python 软件包。", "请按下面的详情安装，然后重试。"),
    ),
    Code.KEY_MISSING: (
        Advice("A key or a folder that an engine needs is not set.", "Set what the detail names, then start again."),
        Advice("引擎所需的密钥或目录没有设置。", "请按下面的详情设置，然后重新启动。"),
    ),
    Code.KEY_REFUSED: (
        Advice("The server of this engine refuses the key.", "Check the key named below, then start again."),
        Advice("服务器不接受这个密钥。", "请检查下面提到的密钥，然后重新启动。"),
    ),
    Code.QUOTA: (
        Advice("The server of this engine takes no more requests for now.", "Wait a while, or raise the quota."),
        Advice("服务器暂不接受更多请求（额度或频率受限）。", "请稍后再试，或提高额度。"),
    ),
    Code.NETWORK: (
        Advice("A server that is needed cannot be reached.", "Check the network and the address below, then retry."),
        Advice("无法连接所需的服务器。", "请检查网络和下面详情中的地址，然后重试。"),
    ),
    Code.DISK_FULL: (
        Advice("The disk is full, so model files cannot be stored.", "Free some space, then retry."),
        Advice("磁盘已满，无法存放模型文件。", "请清理一些空间，然后重试。"),
    ),
    Code.UNKNOWN_ENGINE: (
        Advice("There is no engine of this name.", "Choose one from the list in the settings."),
        Advice("没有这个名称的引擎。", "请在设置的列表里选择。"),
    ),
    Code.UNKNOWN_MODEL: (
        Advice("There is no model of this name.", "See the names on the Engines page, or look at the hub."),
        Advice("没有这个名称的模型。", "请在“引擎”页查看名称，或到模型社区核对。"),
    ),
    Code.UNKNOWN_PROFILE: (
        Advice("There is no profile of this name.", "Start with one of those in the detail below."),
        Advice("没有这个名称的配置方案。", "请用下面详情里列出的方案启动。"),
    ),
    Code.BAD_PROFILE: (
        Advice("The file of this profile has a mistake.", "Mend what the detail names, then start again."),
        Advice("这个配置方案的文件有误。", "请按下面的提示修改，然后重新启动。"),
    ),
    Code.UNKNOWN_SCENARIO: (
        Advice("There is no scenario of this name.", "Choose one from the list in the settings."),
        Advice("没有这个名称的场景。", "请在设置的列表里选择。"),
    ),
    Code.BAD_SCENARIO: (
        Advice("The file of this scenario has a mistake.", "Choose another one, or mend the line named below."),
        Advice("这个场景的文件有误。", "请换一个场景，或按下面的提示修改文件。"),
    ),
    Code.TRANSPORT_UNTESTED: (
        Advice(
            "The installed audio libraries are not the tested versions.",
            "Install the pinned requirements, or choose the stock transport under “after reconnecting”.",
        ),
        Advice("安装的音频库不是经过测试的版本。", "请按 requirements.txt 安装，或改用 stock 通路。"),
    ),
    Code.TOO_MANY_VISITORS: (
        Advice("All places are taken by other visitors.", "Wait a minute or two, then try again."),
        Advice("当前体验人数已满。", "请过一两分钟再试。"),
    ),
}

_NOTICES: dict[NoticeCode, tuple[Advice, Advice]] = {
    NoticeCode.MONOLOGUE_CAPPED: (
        Advice("You spoke for very long, so I answered what I had heard so far.", "Ask one thing at a time."),
        Advice("这段话太长，已按听到的部分先作答。", "建议一次只问一件事。"),
    ),
    NoticeCode.AUDIO_REPAIRED: (
        Advice("Part of the sound was damaged and was replaced by silence.", "If it goes on, try another microphone."),
        Advice("部分声音数据损坏，已用静音代替。", "如果持续出现，请换一个麦克风。"),
    ),
    NoticeCode.AUDIO_CLIPPED: (
        Advice("Your microphone is too loud and distorts.", "Move back a little, or lower its input level."),
        Advice("麦克风音量过大，声音失真。", "请离远一点，或调低输入音量。"),
    ),
    NoticeCode.CAPTURE_BEHIND: (
        Advice(
            "The machine fell behind and missed part of what you said.", "Say it again, and close other heavy programs."
        ),
        Advice("机器一时处理不过来，漏听了一部分。", "请再说一遍，并关闭其他占用较高的程序。"),
    ),
    NoticeCode.REPLY_CUT: (
        Advice("The reply reached its length limit and was cut.", "Ask for the rest, or raise the limit."),
        Advice("回复达到长度上限，已截断。", "可以继续追问，或在设置里调高上限。"),
    ),
    NoticeCode.SILENCE: (
        Advice("I have not heard anything for a while.", "Is the microphone muted, or another one chosen?"),
        Advice("有一会儿没听到声音了。", "请检查麦克风是否静音，或是否选错了设备。"),
    ),
}


_REASONS: dict[Reason, tuple[Advice, Advice]] = {
    Reason.COLD: (
        Advice("The session was still getting ready.", "The next turn will be faster."),
        Advice("会话还在预热。", "下一轮会更快。"),
    ),
    Reason.SLOW_ENDPOINT: (
        Advice("It waited to be sure that you had finished.", "Lower the two waits under “Listening”."),
        Advice("为确认您已说完而等待。", "可在“听”一栏调低两个等待时间。"),
    ),
    Reason.WITNESS_LATE: (
        Advice("The verdict whether you had finished came late.", "Close other programs, or use more threads."),
        Advice("判断是否说完的结果来晚了。", "请关闭其他程序，或增加推理线程。"),
    ),
    Reason.ASR_SLOW: (
        Advice("Speech recognition was slow.", "Speak in shorter sentences, or choose a faster engine."),
        Advice("语音识别偏慢。", "请把句子说短一些，或换用更快的识别引擎。"),
    ),
    Reason.CACHE_MISS: (
        Advice(
            "No prepared first words fitted, so they had to be made.", "Nothing is wrong; keep openers switched on."
        ),
        Advice("没有合适的备好开头语，只能现做。", "无需处理；请保持“备好的开头语”开启。"),
    ),
    Reason.DRAFT_DROPPED: (
        Advice("A draft was dropped because you went on, and none took its place.", "Raise the pause before a draft."),
        Advice("您继续说话，草稿作废，来不及重新起草。", "可调高“起草前的停顿”。"),
    ),
    Reason.LLM_SLOW: (
        Advice("The language model was slow.", "Fewer words in the first phrase, or another model, are faster."),
        Advice("语言模型偏慢。", "可减少首个短语的词数，或换用更快的模型。"),
    ),
    Reason.TTS_SLOW: (
        Advice("The voice was slow.", "Fewer words in the first phrase, or another voice, are faster."),
        Advice("语音合成偏慢。", "可减少首个短语的词数，或换用更快的合成引擎。"),
    ),
    Reason.QUEUE_WAIT: (
        Advice("Its work had to wait behind other work.", "Refresh the live transcript less often."),
        Advice("前面的任务没做完，一直在排队。", "可调大实时转写的刷新间隔。"),
    ),
    Reason.CPU_STOLEN: (
        Advice("Something else used the processor.", "Close other programs, or use fewer threads."),
        Advice("处理器被其他任务占用。", "请关闭其他程序，或减少推理线程。"),
    ),
}


def _pick(pair: tuple[Advice, Advice], lang: str) -> Advice:
    return pair[1] if lang == "zh" else pair[0]


def of_error(code: Code, lang: str) -> Advice:
    """What happened and what to do, for an error."""
    return _pick(_ERRORS[code], lang)


def of_notice(code: NoticeCode, lang: str) -> Advice:
    """What happened and what to do, for a notice."""
    return _pick(_NOTICES[code], lang)


def of_reason(reason: Reason, lang: str) -> Advice:
    """Why a turn was slow and what to do about it."""
    return _pick(_REASONS[reason], lang)


def tables() -> Mapping[str, Mapping[Code, tuple[Advice, Advice]] | Mapping[NoticeCode, tuple[Advice, Advice]]]:
    """Both tables, so that a test can see that nothing is missing."""
    return {"errors": _ERRORS, "notices": _NOTICES}

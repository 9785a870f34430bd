"""The packet length we ask of the browser.

RFC 8866: `a=ptime` in a media section says how long a packet's audio the receiver would like. Chromium's default is
20 ms; 10 halves the wait for the last sample of a packet.
"""

from __future__ import annotations

UPLINK_PTIME_MS = 10


def with_ptime(sdp: str, ptime_ms: int = UPLINK_PTIME_MS) -> str:
    """`sdp` with `a=ptime` in each audio section, and in no other; one that was there is replaced."""
    out: list[str] = []
    in_audio = False
    for line in sdp.splitlines():
        if line.startswith("m="):
            if in_audio:
                out.append(f"a=ptime:{ptime_ms}")
            in_audio = line.startswith("m=audio ")
        if not (in_audio and line.startswith("a=ptime:")):
            out.append(line)
    if in_audio:
        out.append(f"a=ptime:{ptime_ms}")
    return "\r\n".join(out) + "\r\n"

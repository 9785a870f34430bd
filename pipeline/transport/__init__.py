"""The audio path between the browser and a session: WebRTC through streamlit-webrtc and aiortc, tuned.

Median mouth to ear of a beep that is answered with a beep, headless Chromium on the same machine: see README's figures
and `python -m pipeline.browser.beeps`. One module a concern: jitter (inbound order), codecs (Opus in place), loop (a
thread for the media), sdp (packet length), track (outbound pace), capture (inbound samples), line (one visitor's two
directions), install (puts it in place and checks what it replaces).
"""

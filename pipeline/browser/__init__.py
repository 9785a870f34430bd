"""Headless Chromium as a visitor: speaks a wav into the page's microphone and hears what the page plays, on one clock.

driver (Chromium and the page), capture.js (records both ends in the page), recording (what was recorded, with times),
mic (wavs to speak, and finding them again in the recording), server (a Streamlit app in a subprocess), beep_app,
beep_session and beeps (the transport alone, measured with beeps answered by beeps).
"""

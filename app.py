"""The entry script of the page: `streamlit run app.py`. It frames the pages in pages/ and carries the call."""

import streamlit as st

from pipeline.ui import controls, frame
from pipeline.ui.words import say

lang = frame.language()
st.set_page_config(page_title=say("title", lang), page_icon=":material/graphic_eq:", layout="wide")
page = frame.navigation(lang)
frame.header(lang)
controls.show_again()
with st.sidebar:
    controls.panel(lang, frame.apply, frame.reconnect)
settings = controls.current()
visit = frame.ready(settings, lang, page)
if visit is not None:
    frame.call(visit, settings, lang)
if visit is not None or frame.wants_no_visit(page):
    page.run()

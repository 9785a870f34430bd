// Tells the page what streamlit-webrtc keeps to itself: why there is no microphone, why there is no connection, and how
// long sound takes from the network to the visitor's ear. It is a Streamlit component with nothing to see.
//
// Both components are iframes of the same origin, so this one wraps getUserMedia and RTCPeerConnection in the other's
// window before START is pressed. Where that is not possible, the permission and device checks below still work.
"use strict";
(() => {
  const LOOK_MS = 50, STATS_MS = 2000, STEP_MS = 3, CONNECTS_WITHIN_MS = 15000;
  const state = {reason: null, downlink_ms: null};
  let sent = "", blocked = null, failed = null, pc = null, before = null;

  const toStreamlit = message => window.parent.postMessage({isStreamlitMessage: true, ...message}, "*");
  const say = () => {
    state.reason = blocked || failed;
    const now = JSON.stringify(state);
    if (now === sent) return;
    sent = now;
    toStreamlit({type: "streamlit:setComponentValue", value: {...state}, dataType: "json"});
  };

  // -- why there is no microphone
  const REASONS = {NotAllowedError: "refused", SecurityError: "refused", NotFoundError: "none",
                   OverconstrainedError: "none", NotReadableError: "busy", AbortError: "busy"};
  const check = async () => {
    if (!window.isSecureContext || !navigator.mediaDevices) { blocked = "insecure"; say(); return; }
    let now = null;
    try {
      const permission = await navigator.permissions.query({name: "microphone"});
      permission.onchange = check;
      if (permission.state === "denied") now = "refused";
    } catch (e) { /* a browser that does not tell */ }
    try {
      const devices = await navigator.mediaDevices.enumerateDevices();
      if (!now && !devices.some(d => d.kind === "audioinput")) now = "none";
    } catch (e) { /* likewise */ }
    blocked = now;
    say();
  };

  // -- why there is no connection
  const watch = connection => {
    pc = connection; before = null; failed = null;
    let connected = false;
    connection.addEventListener("connectionstatechange", () => {
      if (connection.connectionState === "connected") { connected = true; failed = null; }
      if (connection.connectionState === "failed") failed = connected ? "lost" : "unreachable";
      // streamlit-webrtc gives up at "disconnected", so "failed" is never reached. A live track: STOP was not pressed.
      if (connection.connectionState === "disconnected" && connected
          && connection.getSenders().some(s => s.track && s.track.readyState === "live")) failed = "lost";
      say();
    });
  };
  // Without a way through, Chromium may go on looking for ever. Counted from the microphone's consent, not from START.
  const expect = connection => setTimeout(() => {
    if (connection && connection === pc && ["new", "connecting"].includes(connection.connectionState)) failed = "unreachable";
    say();
  }, CONNECTS_WITHIN_MS);
  const wrap = theirs => {
    if (theirs.__turnaround_probe || !theirs.RTCPeerConnection) return;
    theirs.__turnaround_probe = true;
    const Stock = theirs.RTCPeerConnection;
    theirs.RTCPeerConnection = new Proxy(Stock, {
      construct(target, args) { const made = new target(...args); watch(made); return made; },
    });
    const media = theirs.navigator.mediaDevices;
    if (!media) return;
    const ask = media.getUserMedia.bind(media);
    media.getUserMedia = async constraints => {
      failed = null;
      try { const stream = await ask(constraints); expect(pc); return stream; }
      catch (e) { failed = REASONS[e.name] || "failed"; throw e; }
      finally { say(); }
    };
  };
  const siblings = () => {
    try {
      return [...window.parent.document.querySelectorAll("iframe")].filter(f => f.src.includes("webrtc_streamer"));
    } catch (e) { return []; }
  };

  // -- how long from the network to the ear: half a round trip, the jitter buffer, the playout, over the last interval
  const measure = async () => {
    if (!pc || pc.connectionState !== "connected") { before = null; return; }
    const now = {held: 0, out: 0, played: 0, samples: 0, rtt: 0};
    (await pc.getStats()).forEach(r => {
      if (r.type === "inbound-rtp" && r.kind === "audio") { now.held = r.jitterBufferDelay; now.out = r.jitterBufferEmittedCount; }
      if (r.type === "media-playout") { now.played = r.totalPlayoutDelay; now.samples = r.totalSamplesCount; }
      if (r.type === "candidate-pair" && r.nominated) now.rtt = r.currentRoundTripTime || 0;
    });
    if (before && now.out > before.out) {
      const per = (total, n) => n > 0 ? total / n : 0;
      const seconds = now.rtt / 2 + per(now.held - before.held, now.out - before.out)
                    + per(now.played - before.played, now.samples - before.samples);
      const ms = Math.round(seconds * 10000) / 10;
      if (state.downlink_ms === null || Math.abs(ms - state.downlink_ms) >= STEP_MS) { state.downlink_ms = ms; say(); }
    }
    before = now;
  };

  // Often: a visitor may press START as soon as it is there, and the component may be mounted anew.
  const look = () => siblings().forEach(f => { try { wrap(f.contentWindow); } catch (e) { /* not ours to see */ } });
  toStreamlit({type: "streamlit:componentReady", apiVersion: 1});
  toStreamlit({type: "streamlit:setFrameHeight", height: 0});
  check();
  look();
  if (navigator.mediaDevices) navigator.mediaDevices.addEventListener("devicechange", check);
  setInterval(look, LOOK_MS);
  setInterval(() => measure().catch(() => {}), STATS_MS);
})();

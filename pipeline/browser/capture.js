// Records the microphone and what the page's audio element is fed, block by block, with the times of each block.
// Runs in every frame before the page's own scripts. Nothing is analysed here: Python does that.
"use strict";
(() => {
  if (window.__turnaround_bench) return;
  const bench = window.__turnaround_bench = {microphones: [], connections: [], recordings: {}};
  if (navigator.mediaDevices) {
    const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
    navigator.mediaDevices.getUserMedia = async constraints => {
      const stream = await ask(constraints);
      bench.microphones.push(stream);
      return stream;
    };
  }
  if (window.RTCPeerConnection) {
    window.RTCPeerConnection = new Proxy(window.RTCPeerConnection, {
      construct(target, args) { const made = new target(...args); bench.connections.push(made); return made; },
    });
  }
  const latest = list => list[list.length - 1];
  bench.connected = () => {
    const connection = latest(bench.connections), audio = document.querySelector("audio");
    return !!connection && connection.connectionState === "connected" && !!audio && !!audio.srcObject
      && audio.srcObject.getAudioTracks().length > 0 && !audio.paused;
  };

  const record = async (name, track) => {
    const blocks = bench.recordings[name] = [];
    const reader = new MediaStreamTrackProcessor({track: track.clone()}).readable.getReader();
    for (;;) {
      const {value, done} = await reader.read();
      if (done) return;
      const arrived = performance.now(), n = value.numberOfFrames, floats = new Float32Array(n), pcm = new Int16Array(n);
      value.copyTo(floats, {planeIndex: 0, format: "f32-planar"});
      for (let i = 0; i < n; i++) pcm[i] = Math.max(-32768, Math.min(32767, Math.round(floats[i] * 32767)));
      blocks.push({stamp: value.timestamp, arrived, rate: value.sampleRate, pcm});
      value.close();
    }
  };
  bench.start = () => {
    const audio = document.querySelector("audio");
    bench.errors = [];
    const note = error => bench.errors.push(String(error));
    record("mic", latest(bench.microphones).getAudioTracks()[0]).catch(note);
    record("ear", audio.srcObject.getAudioTracks()[0]).catch(note);
    return {volume: audio.volume, muted: audio.muted, settings: latest(bench.microphones).getAudioTracks()[0].getSettings()};
  };

  const base64 = bytes => {
    let text = "";
    for (let i = 0; i < bytes.length; i += 32768) text += String.fromCharCode.apply(null, bytes.subarray(i, i + 32768));
    return btoa(text);
  };
  // Up to `limit` blocks, taken out of the page: fetched in slices so that no message grows too large.
  bench.take = (name, limit) => {
    const blocks = (bench.recordings[name] || []).splice(0, limit);
    const total = blocks.reduce((sum, b) => sum + b.pcm.length, 0), pcm = new Int16Array(total);
    let at = 0;
    for (const block of blocks) { pcm.set(block.pcm, at); at += block.pcm.length; }
    return {stamps: blocks.map(b => b.stamp), arrived: blocks.map(b => b.arrived), lengths: blocks.map(b => b.pcm.length),
            rate: blocks.length ? blocks[0].rate : 0, pcm: base64(new Uint8Array(pcm.buffer))};
  };
  bench.stats = async () => {
    const out = {};
    (await latest(bench.connections).getStats()).forEach(r => {
      if (r.type === "inbound-rtp" && r.kind === "audio") out.inbound = {
        held_s: r.jitterBufferDelay, emitted: r.jitterBufferEmittedCount, lost: r.packetsLost, received: r.packetsReceived,
        concealed: r.concealedSamples, inserted: r.insertedSamplesForDeceleration, removed: r.removedSamplesForAcceleration};
      if (r.type === "outbound-rtp" && r.kind === "audio") out.outbound = {packets: r.packetsSent};
      if (r.type === "candidate-pair" && r.nominated) out.rtt_s = r.currentRoundTripTime;
      if (r.type === "local-candidate") (out.local = out.local || []).push(r.candidateType);
      if (r.type === "remote-candidate") (out.remote = out.remote || []).push(r.candidateType);
    });
    return out;
  };
})();

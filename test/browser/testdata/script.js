// Tries out what the page came over and posts what it saw as /report. A page
// with ?until=PROTOCOL first loads itself again once requests go over that.
"use strict";

const texts = ["", "hello", "grüße, 世界 🌍"];
for (let i = 0; i < 200; i++) texts.push("message " + i);

const random = (size) => {
  const bytes = new Uint8Array(size);
  for (let at = 0; at < size; at += 65536) crypto.getRandomValues(bytes.subarray(at, at + 65536));
  return bytes;
};
const hash = async (bytes) => Array.from(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)), (b) => b.toString(16).padStart(2, "0")).join("");
const expect = (what, got, want) => {
  if (got !== want) throw new Error(`${what}: ${got}, want ${want}`);
};

// protocolOf returns what a resource came over, as ALPN calls it. The browser
// tells of that a little later than of the resource's end.
const protocols = new Map();
const awaited = new Map();
new PerformanceObserver((list) => {
  for (const { name, nextHopProtocol } of list.getEntries()) {
    protocols.set(name, nextHopProtocol);
    awaited.get(name)?.(nextHopProtocol);
  }
}).observe({ type: "resource", buffered: true });
const protocolOf = (path) => new Promise((resolve) => {
  const { href } = new URL(path, location);
  protocols.has(href) ? resolve(protocols.get(href)) : awaited.set(href, resolve);
});

const checks = {
  async page() {
    expect("colour of the styled text", getComputedStyle(document.getElementById("styled")).color, "rgb(1, 2, 3)");
    expect("width of the picture", document.getElementById("picture").naturalWidth, 32);
    return performance.getEntriesByType("navigation")[0].nextHopProtocol;
  },
  style: () => protocolOf("/style.css"),
  picture: () => protocolOf("/picture.png"),
  script: () => protocolOf("/script.js"),

  // A session of a cookie stays at the endpoint that it began at.
  async session() {
    const names = new Set();
    for (let i = 0; i < 20; i++) names.add(await (await fetch("/name?" + i)).text());
    return Array.from(names).join(" and ");
  },

  async upload() {
    const bytes = random(4 << 20);
    const answer = await fetch("/hash", { method: "POST", body: bytes });
    expect("status", answer.status, 200);
    expect("hash at the endpoint", await answer.text(), await hash(bytes));
    return protocolOf("/hash");
  },

  async download() {
    const answer = await fetch("/random");
    const bytes = await answer.arrayBuffer();
    expect("size", bytes.byteLength, 4 << 20);
    expect("hash", await hash(bytes), await (await fetch("/random/hash")).text());
    return protocolOf("/random");
  },

  // The endpoint sends an event once the page has told it of the one before,
  // so that none may wait for another on its way.
  events() {
    return new Promise((resolve, reject) => {
      const source = new EventSource("/events?page=" + performance.timeOrigin);
      let wanted = 1;
      source.onerror = () => reject(new Error("broke off before event " + wanted));
      source.onmessage = (event) => {
        if (event.data !== "event " + wanted || event.lastEventId !== String(wanted)) {
          reject(new Error(`${event.data} with id ${event.lastEventId}, want event ${wanted}`));
        } else if (wanted === 10) {
          source.close();
          resolve(wanted);
        } else {
          fetch("/events/seen?page=" + performance.timeOrigin, { method: "POST", body: String(wanted++) }).catch(reject);
        }
      };
    });
  },

  // Messages come back in their order, then one that is large, and then the
  // endpoint alone says something for a while: pings, which the browser answers.
  pings() {
    return new Promise((resolve, reject) => {
      const socket = new WebSocket(`wss://${location.host}/socket`);
      const large = random(1 << 20);
      let at = -1;
      let pings = 0;
      socket.binaryType = "arraybuffer";
      socket.onerror = () => reject(new Error("error before message " + at));
      socket.onmessage = async ({ data }) => {
        try {
          if (at === -1) {
            expect("the endpoint's name", data, (await (await fetch("/name")).text()));
            texts.forEach((text) => socket.send(text));
            socket.send(large);
          } else if (at < texts.length) {
            expect("message " + at, data, texts[at]);
          } else if (at === texts.length) {
            expect("size of the large message", data.byteLength, large.length);
            const back = new Uint8Array(data);
            for (let i = 0; i < large.length; i++) if (back[i] !== large[i]) throw new Error(`byte ${i} of the large message is another`);
            socket.send("ping me");
          } else {
            pings = Number(data);
            socket.close(1000, "done");
          }
          at++;
        } catch (error) {
          reject(error);
        }
      };
      socket.onclose = ({ code, reason, wasClean }) => {
        try {
          expect("last message", at, texts.length + 2);
          expect("close", `${code} ${reason} ${wasClean}`, "1000 done true");
          resolve(pings);
        } catch (error) {
          reject(error);
        }
      };
    });
  },
};

async function run() {
  const until = new URLSearchParams(location.search).get("until");
  if (until) {
    let over = "";
    for (let i = 0; over !== until; i++) {
      await (await fetch("/name?until=" + i)).text();
      over = await protocolOf("/name?until=" + i);
    }
    const first = performance.getEntriesByType("navigation")[0].nextHopProtocol;
    location.replace("/?first=" + encodeURIComponent(first));
    return;
  }
  const report = { first: new URLSearchParams(location.search).get("first") || "", errors: [], interim: performance.getEntriesByType("navigation")[0].firstInterimResponseStart > 0 };
  await Promise.all(Object.entries(checks).map(async ([name, check]) => {
    try {
      report[name] = await check();
    } catch (error) {
      report.errors.push(`${name}: ${error.message}`);
    }
  }));
  await fetch("/report", { method: "POST", body: JSON.stringify(report) });
}

window.addEventListener("load", () => run().catch((error) => fetch("/report", { method: "POST", body: JSON.stringify({ errors: ["page: " + error.message] }) })));

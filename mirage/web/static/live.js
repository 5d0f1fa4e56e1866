// Keeps the page up to date: the service says that something changed, and <main> is fetched anew.
"use strict";
(() => {
  const main = () => document.getElementById("main");
  if (!main() || main().dataset.live === undefined) return;
  const status = document.getElementById("live");
  const source = main().dataset.live;

  const SOON_MS = 400; // several changes of one tick are one
  const poll = Math.max(5, Number(main().dataset.poll) || 60) * 1000;
  let etag = 'W/"' + main().dataset.etag + '"';
  let fetching = false;
  let again = false;
  let lost = false;
  let seen = new Date();
  let timer = null;

  const clock = (at) => at.toISOString().slice(11, 16) + " UTC";
  const say = (words) => {
    if (status.textContent !== words) status.textContent = words;
  };

  // As words.py writes it.
  function span(seconds) {
    if (seconds < 120) return Math.round(seconds) + " s";
    if (seconds < 7200) return Math.round(seconds / 60) + " min";
    const minutes = Math.round(seconds / 60);
    if (seconds < 172800) {
      return Math.floor(minutes / 60) + " h" + (minutes % 60 ? " " + (minutes % 60) + " min" : "");
    }
    return Math.round(seconds / 86400) + " d";
  }

  function age() {
    const passed = (Date.now() - seen.getTime()) / 1000;
    for (const time of document.querySelectorAll("time[data-age]")) {
      time.textContent = span(Number(time.dataset.age) + passed) + " ago";
    }
  }

  // What tells an element of the old page from its like in the new one.
  function key(element) {
    if (element.id) return "#" + element.id;
    const name = element.getAttribute("name") || element.getAttribute("href");
    return name ? element.localName + ":" + name : null;
  }

  const find = (root, wanted) =>
    wanted && [...root.querySelectorAll("[id],[name],[href]")].find((e) => key(e) === wanted);

  function busy() {
    // Somebody is filling in a form: nothing is taken from under their hands.
    const at = document.activeElement;
    return at && main().contains(at) && at.matches("input:not([type=hidden]),select,textarea");
  }

  function swap(html) {
    const fresh = new DOMParser().parseFromString(html, "text/html").getElementById("main");
    if (!fresh) return false;
    const open = [...main().querySelectorAll("details[id][open]")].map((d) => d.id);
    const scrolled = [...main().querySelectorAll("[id]")]
      .filter((e) => e.scrollLeft || e.scrollTop)
      .map((e) => [e.id, e.scrollLeft, e.scrollTop]);
    const at = document.activeElement;
    const focused = at && main().contains(at) ? key(at) : null;
    const top = window.scrollY;
    main().replaceChildren(...document.importNode(fresh, true).childNodes);
    for (const id of open) {
      const details = document.getElementById(id);
      if (details) details.open = true;
    }
    for (const [id, left, down] of scrolled) {
      const element = document.getElementById(id);
      if (element) Object.assign(element, { scrollLeft: left, scrollTop: down });
    }
    const target = find(main(), focused);
    if (target) target.focus({ preventScroll: true });
    window.scrollTo(window.scrollX, top);
    return true;
  }

  async function refresh() {
    if (fetching || busy()) {
      again = true;
      return;
    }
    fetching = true;
    again = false;
    try {
      const headers = { Accept: "text/html" };
      if (etag) headers["If-None-Match"] = etag;
      const answer = await fetch(location.href, { headers, cache: "no-store", redirect: "manual" });
      if (answer.type === "opaqueredirect") {
        location.reload(); // the session is over
        return;
      }
      if (answer.status !== 304 && !answer.ok) throw new Error(String(answer.status));
      etag = answer.headers.get("ETag");
      seen = new Date();
      if (answer.status !== 304 && swap(await answer.text())) {
        say("Updated at " + clock(seen));
      } else if (lost) {
        say("Connected again");
      }
      lost = false;
      document.body.classList.remove("lost");
    } catch {
      lost = true;
      document.body.classList.add("lost");
      say("Connection lost, as of " + clock(seen));
    } finally {
      fetching = false;
      if (again && !busy()) soon();
    }
  }

  function soon() {
    if (timer === null) {
      timer = setTimeout(() => {
        timer = null;
        refresh();
      }, SOON_MS);
    }
  }

  document.addEventListener("focusout", () => {
    if (again) soon();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) soon();
  });
  setInterval(age, 1000);
  setInterval(() => {
    if (!document.hidden) refresh();
  }, poll);

  const events = new EventSource(source);
  for (const topic of ["chains", "decisions", "queue", "mode", "health", "reset"]) {
    events.addEventListener(topic, soon);
  }
  events.onopen = () => {
    document.documentElement.dataset.events = "open";
    if (lost) soon();
  };
  events.onerror = () => {
    document.documentElement.dataset.events = "closed";
    soon(); // is it the stream alone, or the service?
  };
})();

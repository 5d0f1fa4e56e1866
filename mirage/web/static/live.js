// Keeps the page up to date: when the service reports a change, the script fetches <main> again.
"use strict";
(() => {
  const main = () => document.getElementById("main");
  if (!main() || main().dataset.live === undefined) return;
  const status = document.getElementById("live");
  const updated = document.getElementById("updated");
  const hold = document.getElementById("hold");
  const address = main().dataset.live;

  const SOON_MS = 400; // several changes of one tick lead to one fetch
  const poll = Math.max(5, Number(main().dataset.poll) || 60) * 1000;
  let etag = 'W/"' + main().dataset.etag + '"';
  let fetching = false;
  let again = false;
  let lost = false;
  let made = Date.now(); // when the ages on the page were true
  let heard = new Date(); // when the service last answered, with or without a change
  let timer = null;
  let events = null;

  const clock = (at) => at.toISOString().slice(11, 16) + " UTC";
  const say = (words) => {
    if (status.textContent !== words) status.textContent = words;
  };

  // As formatting.py writes it.
  function span(seconds) {
    if (seconds < 120) return Math.round(seconds) + " s";
    if (seconds < 7200) return Math.round(seconds / 60) + " min";
    const minutes = Math.round(seconds / 60);
    if (seconds < 172800) {
      return Math.floor(minutes / 60) + " h" + (minutes % 60 ? " " + (minutes % 60) + " min" : "");
    }
    const hours = Math.round(seconds / 3600) % 24;
    const days = Math.floor(Math.round(seconds / 3600) / 24);
    return days + " d" + (hours && days < 10 ? " " + hours + " h" : "");
  }

  function age() {
    const passed = (Date.now() - made) / 1000;
    const read = document.querySelector(".state time[data-age]");
    const stale = Boolean(read) && Number(read.dataset.age) + passed > Number(main().dataset.staleAfter);
    if (stale) document.getElementById("stale").hidden = false;
    for (const time of document.querySelectorAll("time[data-age]")) {
      const age = Number(time.dataset.age) + passed;
      if (stale && time !== read) time.textContent = "at " + clock(new Date(time.dateTime));
      else if (age < -5) time.textContent = "in " + span(-age);
      else time.textContent = time.dataset.started || span(Math.max(0, age)) + " ago";
    }
  }

  // Returns a function that finds the same element in the new page: by id, name or address, else
  // by its place among its like.
  function finder(element) {
    const { id, localName, parentElement } = element;
    if (id) return () => document.getElementById(id);
    let like = localName;
    const name = ["name", "href"].find((attribute) => element.hasAttribute(attribute));
    if (localName === "summary" && parentElement.id) {
      like = "#" + CSS.escape(parentElement.id) + " > summary";
    } else if (name) {
      like += "[" + name + '="' + CSS.escape(element.getAttribute(name)) + '"]';
    }
    const place = [...main().querySelectorAll(like)].indexOf(element);
    return () => main().querySelectorAll(like)[place];
  }

  // True while the user fills in a form or has marked words to copy: the page then stays as it is.
  function busy() {
    const at = document.activeElement;
    if (at && main().contains(at) && at.matches("input:not([type=hidden]),select,textarea")) return true;
    const marked = document.getSelection();
    return marked !== null && !marked.isCollapsed && main().contains(marked.anchorNode);
  }

  const held = () => hold.getAttribute("aria-pressed") === "true";

  function swap(html) {
    const fresh = new DOMParser().parseFromString(html, "text/html").getElementById("main");
    if (!fresh) return false;
    const open = [...main().querySelectorAll("details[open]")].map(finder);
    const scrolled = [...main().querySelectorAll("[id]")]
      .filter((e) => e.scrollLeft || e.scrollTop)
      .map((e) => [e.id, e.scrollLeft, e.scrollTop]);
    const at = document.activeElement;
    const focused = at && main() !== at && main().contains(at) ? finder(at) : null;
    const top = window.scrollY;
    main().replaceChildren(...document.importNode(fresh, true).childNodes);
    for (const find of open) {
      const details = find();
      if (details) details.open = true;
    }
    for (const [id, left, down] of scrolled) {
      const element = document.getElementById(id);
      if (element) Object.assign(element, { scrollLeft: left, scrollTop: down });
    }
    const target = focused && focused();
    if (target) target.focus({ preventScroll: true });
    window.scrollTo(window.scrollX, top);
    made = Date.now();
    return true;
  }

  async function refresh() {
    if (fetching || held() || busy()) {
      again = true;
      return;
    }
    fetching = true;
    again = false;
    try {
      const headers = { Accept: "text/html", "If-None-Match": etag };
      const answer = await fetch(location.href, { headers, cache: "no-store", redirect: "manual" });
      if (answer.type === "opaqueredirect") {
        location.reload(); // the session is over
        return;
      }
      if (answer.status !== 304 && !answer.ok) throw new Error(String(answer.status));
      etag = answer.headers.get("ETag");
      heard = new Date();
      // Outside the live region: a screen reader would read it out every minute.
      if (answer.status !== 304 && swap(await answer.text())) {
        updated.textContent = "Updated at " + clock(heard);
      }
      if (lost) say("Connected again");
      lost = false;
      document.body.classList.remove("lost");
    } catch {
      lost = true;
      document.body.classList.add("lost");
      say("Connection lost. This page shows the state of " + clock(heard));
    } finally {
      fetching = false;
      resume();
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

  function resume() {
    if (again && !held() && !busy()) soon();
  }

  // A browser has six connections to a host for all of its pages. A hidden page holds none.
  function listen() {
    if (document.hidden) {
      if (events) events.close();
      events = null;
      return;
    }
    if (events && events.readyState !== EventSource.CLOSED) return;
    events = new EventSource(address);
    for (const topic of ["chains", "decisions", "queue", "mode", "health", "reset"]) {
      events.addEventListener(topic, soon);
    }
    events.onopen = () => {
      document.documentElement.dataset.events = "open";
      if (lost) soon();
    };
    events.onerror = () => {
      document.documentElement.dataset.events = "closed";
      soon(); // to find out whether the stream alone failed, or the service
    };
  }

  hold.hidden = false;
  hold.addEventListener("click", () => {
    hold.setAttribute("aria-pressed", String(!held()));
    resume();
  });
  document.addEventListener("focusout", () => setTimeout(resume));
  document.addEventListener("selectionchange", resume);
  document.addEventListener("visibilitychange", () => {
    listen();
    if (!document.hidden) soon();
  });
  setInterval(age, 1000);
  setInterval(() => {
    if (!document.hidden) refresh();
  }, poll);
  listen();
})();

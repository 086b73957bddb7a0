/* What the pages do in the browser alone: colours, keys, the address, dialogs. Of this server it asks one thing, who is logged in. */
"use strict";
window.gircse = (() => {
  /* In the language of the page. The texts of all scripts stand in the header. */
  let texts = null;
  function text(english, values = {}) {
    texts ??= JSON.parse(document.querySelector("[data-texts]")?.dataset.texts ?? "null");
    return (texts?.[english] ?? english).replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
  }
  /* Gradio names the browser's language there, whatever the page is in. */
  function nameLanguage() {
    const language = document.querySelector(".site-header")?.dataset.language;
    if (language && root.lang !== language) root.lang = language;
  }
  /* Gradio gives all pages one title. Tabs, bookmarks and the history need the page and the query. */
  function nameTitle() {
    const page = document.querySelector(".site-header")?.dataset.page;
    const title = [new URLSearchParams(location.search).get("q"), page, "gircse-search"].filter(Boolean).join(" · ");
    if (page && document.title !== title) document.title = title;
  }
  /* Gradio names the chips of a list by their numbers and sliders in English, and has the arrows of sections read out. */
  function nameControls() {
    for (const each of document.querySelectorAll(".token-remove[title]")) {
      const chip = each.closest(".token"), name = chip?.textContent.trim();
      const title = chip ? text("Remove {name}", { name }) : text("Remove all");
      if (each.title !== title) each.title = title;
    }
    for (const each of document.querySelectorAll("[aria-label^='range slider for '], [aria-label^='number input for ']")) {
      each.ariaLabel = each.ariaLabel.replace(/^(range slider|number input) for /, "");
    }
    for (const each of document.querySelectorAll("button.label-wrap > .icon:not([aria-hidden])")) each.ariaHidden = "true";
  }
  function switchLanguage(language) {
    document.cookie = `gircse-language=${language}; path=/; max-age=${365 * 24 * 3600}; samesite=lax`;
    location.reload();
  }

  const THEME = "gircse-theme";
  const stored = () => { try { return localStorage.getItem(THEME); } catch { return null; } };

  function showTheme() {
    const wanted = stored();
    const dark = wanted ? wanted === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    if (document.body.classList.contains("dark") !== dark) document.body.classList.toggle("dark", dark);
    document.querySelectorAll("[data-theme-switch]").forEach((each) => each.setAttribute("aria-pressed", String(dark)));
  }


  function switchTheme() {
    const dark = !document.body.classList.contains("dark");
    try { localStorage.setItem(THEME, dark ? "dark" : "light"); } catch { /* private window: this page alone */ }
    document.body.classList.toggle("dark", dark);
    showTheme();
  }

  /* The page is shown once it is complete: Gradio mounts it piece by piece, and each piece would push the others about. */
  const root = document.documentElement, asked = new URLSearchParams(location.search).get("q");
  /* Gradio puts its container before the selectors of a stylesheet, and these classes are above it. An answer stands
     where a narrow screen has the button of the filters, which then has a line of its own. */
  const STATES = `<style>.is-opening body { visibility: hidden; }
    :root:not(.is-searching) #skeleton, .is-searching #passages, .is-searching #reading, :root:not(.is-answering) #cited-answer { display: none; }
    @media (max-width: 980px) { .is-answering .answer .facets > button { position: static !important; margin: 4px 0 0 auto; } }</style>`;
  const QUIET_MS = 60, LONGEST_MS = 3000;
  /* What the first answer fills, and all that is below it moves down then. */
  const FILLED = { "/documents": "#documents-list", "/saved": "#search-history", "/evaluate": "#evaluate-sources" }[location.pathname];
  function hideUntilComplete() {
    root.classList.add("is-opening");
    document.head.insertAdjacentHTML("beforeend", STATES);
    if (location.pathname === "/") showSkeleton({ query: asked });
    const isFilled = () => !FILLED || document.querySelector(FILLED)?.offsetHeight;
    const isComplete = () => document.querySelector(".site-footer") && isFilled() && (!asked?.trim() || (document.querySelector("#query textarea")?.value ?? asked));
    const show = () => {
      clearTimeout(latest);
      watching.disconnect();
      root.classList.remove("is-opening");
      if (document.activeElement === document.body) document.querySelector("#query textarea")?.focus({ preventScroll: true });
    };
    let quiet;
    const watching = new MutationObserver(() => {
      clearTimeout(quiet);
      quiet = setTimeout(() => { if (isComplete()) show(); }, QUIET_MS);
    });
    watching.observe(document.documentElement, { childList: true, subtree: true, attributes: true, attributeFilter: ["style"] });
    const latest = setTimeout(show, LONGEST_MS);
  }

  /* Until the first answer to a search is there, or it is known that none will come. */
  function showSkeleton({ query }) { if (query?.trim()) { root.classList.add("is-searching"); root.classList.remove("is-answering"); } }
  /* An answer belongs to the search above which it was asked for: the next one hides it. */
  const showAnswer = () => root.classList.add("is-answering");
  const hideSkeleton = () => root.classList.remove("is-searching");
  function watchAnswers(changes) {
    if (!root.classList.contains("is-searching")) return;
    const passages = document.querySelector("#passages");
    const isNew = changes.some(({ target }) => passages?.contains(target) && (target.closest(".html-container")));
    if (isNew && !passages.querySelector(".welcome")) hideSkeleton();
  }

  const isTyping = (node) => node.closest("input, textarea, select, [contenteditable], [role='listbox'], dialog") !== null;

  /* Arrows walk over everything marked data-walk, as hits; Enter is the browser's own, since each is a button. */
  function walk(step) {
    const stops = [...document.querySelectorAll("[data-walk]")].filter((each) => each.checkVisibility());
    if (!stops.length) return false;
    const at = stops.indexOf(document.activeElement);
    const next = at < 0 ? (step > 0 ? 0 : stops.length - 1) : Math.min(Math.max(at + step, 0), stops.length - 1);
    stops[next].focus();
    stops[next].scrollIntoView({ block: "nearest" });
    return true;
  }

  /* To the first hit, past the fields of the search. */
  function skip(link, event) {
    const target = document.querySelector(link.hash);
    const hit = [...target.querySelectorAll("[data-walk]")].find((each) => each.checkVisibility());
    if (!hit) target.tabIndex = -1;
    (hit ?? target).focus();
    event.preventDefault(); /* the address stays that of the search */
  }

  /* A list of choices closes first, and a dialog closes by itself. */
  function leaveField(field) {
    if (field.matches("input, textarea") && field.ariaExpanded !== "true" && !field.closest("dialog, [popover]")) field.blur();
  }

  /* Gradio opens a list of choices at every key. Tab and Shift+Tab leave the list, so it would stay open: they never reach Gradio. */
  const LEAVING = ["Tab", "Shift", "Control", "Alt", "Meta"];
  function hideLeaving(event) {
    if (LEAVING.includes(event.key) && event.target.matches?.("[role='combobox']")) event.stopPropagation();
  }

  function onKey(event) {
    if (event.key === "Escape") leaveField(event.target);
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const field = document.querySelector("#query textarea, #query input");
    if (event.key === "/" && field) { event.preventDefault(); field.focus(); field.select(); }
    if (event.key === "?") { event.preventDefault(); openKeys(); }
    if (event.key === "o") (document.activeElement.closest("[data-walk]") ?? document.querySelector(".hit [data-walk]"))?.click();
    const step = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key];
    if (step && !event.target.closest("[role='radiogroup'], [role='slider'], [role='tablist']") && walk(step)) event.preventDefault();
  }

  const openKeys = () => document.querySelector("#keys").showModal();

  /* Of a secure origin alone: elsewhere (http, not this machine) browsers have no clipboard but by a selection. */
  async function copy(text) {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    const field = document.body.appendChild(Object.assign(document.createElement("textarea"), { value: text }));
    field.select();
    document.execCommand("copy");
    field.remove();
  }

  /* Says for a moment on the button what came of it. */
  function say(button, what) {
    const name = button.textContent;
    button.textContent = what;
    setTimeout(() => { button.textContent = name; }, 1500);
  }

  const EXPORTS = { csv: "text/csv", json: "application/json", md: "text/markdown" };
  async function exportResults(button) {
    const { format } = button.dataset, body = button.closest("[data-request]").dataset.request;
    const found = await fetch("/api/v1/search", { method: "POST", body, headers: { "content-type": "application/json", accept: EXPORTS[format] } });
    if (!found.ok) { say(button, text("Failed")); return; }
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(await found.blob()), download: `search.${format}` });
    link.click();
    URL.revokeObjectURL(link.href);
    button.closest("[popover]").hidePopover();
  }

  function onClick(event) {
    if (event.target.closest("[data-open-keys]")) openKeys();
    const copier = event.target.closest("[data-copy]");
    if (copier) copy(copier.dataset.isAddress ? new URL(copier.dataset.copy, location.href).href : copier.dataset.copy).then(() => say(copier, text("Copied")), () => say(copier, text("Failed")));
    const exporter = event.target.closest("[data-format]");
    if (exporter) exportResults(exporter);
    if (event.target.closest("[data-theme-switch]")) switchTheme();
    const chosen = event.target.closest("button[data-language]");
    if (chosen) switchLanguage(chosen.dataset.language);
    const skipping = event.target.closest("[data-skip]");
    if (skipping) skip(skipping, event);
    const toggle = event.target.closest("[data-toggle]");
    if (toggle) toggle.setAttribute("aria-expanded", String(document.getElementById(toggle.dataset.toggle).classList.toggle("is-open")));
    const closer = event.target.closest("[data-close-dialog]");
    if (closer) closer.closest("dialog").close();
    if (event.target.nodeName === "DIALOG") event.target.close(); /* its backdrop */
  }

  /* A popover is over everything and knows no place: it is put below the button that opened it. */
  function placeMenu(event) {
    const menu = event.target;
    if (event.newState !== "open" || !menu.matches?.(".menu")) return;
    const button = document.querySelector(`[popovertarget="${menu.id}"]`).getBoundingClientRect();
    menu.style.left = Math.max(8, Math.min(button.left, innerWidth - menu.offsetWidth - 8)) + "px";
    menu.style.top = Math.min(button.bottom + 4, innerHeight - menu.offsetHeight - 8) + "px";
    addEventListener("scroll", () => menu.hidePopover(), { once: true, capture: true, passive: true });
  }

  /* The address without a fragment: an entry of the history with the same one is a dialog's or a link's within the page. */
  const here = () => location.pathname + location.search;
  let shownAddress = here();
  function setAddress(address, { isNew = false } = {}) {
    if (isNew && !history.state?.dialog) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
    shownAddress = here();
    nameTitle();
  }

  /* Puts what was asked into the address, so that it can be shared, and undone with the browser's Back. */
  function remember(values, { isNew = true } = {}) {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(values)) {
      if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
    }
    const address = location.pathname + (query.size ? "?" + query : "");
    if (address !== here()) setAddress(address, { isNew });
  }

  /* An open document is an entry of the history: Back closes it, Forward opens it again. */
  function keepForBack(id, dialog) {
    if (history.state?.dialog !== id) history.pushState({ dialog: id }, "");
    dialog.onclose = () => { if (history.state?.dialog === id) history.back(); };
  }

  function onPopState({ state }) {
    if (here() !== shownAddress) { location.reload(); return; }
    const dialog = state?.dialog && document.querySelector(`#${state.dialog} dialog`);
    if (dialog) openDialog(state.dialog);
    else document.querySelector("dialog.document-view[open]:not(#keys)")?.close();
  }

  function openDialog(id) {
    const dialog = document.querySelector(`#${id} dialog`);
    if (!dialog) return;
    if (!dialog.open) dialog.showModal();
    keepForBack(id, dialog);
    const passage = dialog.querySelector("#sentence") || dialog.querySelector("#passage");
    if (passage) passage.scrollIntoView({ block: "center" });
  }

  /* Gradio passes the values of fields by position; from here on they have names. */
  const named = (names, values) => Object.fromEntries(names.map((name, at) => [name, values[at]]));

  /* The same as `text_of` of ui/search_fields.py. */
  function textOf(value) {
    if (Array.isArray(value)) return [...value].sort().join(" ");
    return typeof value === "boolean" ? String(Number(value)) : String(value ?? "");
  }

  /* Puts the fields of a search into the address as it begins: later the fields may hold what is being typed. For each
     field, `parameters` has the name there, the `usual` text, which is left out, and the text of an empty field.
     `isAgain`: without a query the page begins anew instead of complaining. */
  let isOpen = false, early = null; /* a query entered before the other fields were filled */
  function beginSearch(values, parameters, { isAgain = false, isNew = true } = {}) {
    if (!isOpen && isNew) early = values.query;
    if (document.querySelector("#skeleton")) showSkeleton(values);
    if (!values.query?.trim()) {
      if (isAgain && new URLSearchParams(location.search).has("q")) remember({});
      return;
    }
    remember(Object.fromEntries(Object.entries(parameters).map(([name, { name: parameter, usual, empty }]) => {
      const text = values[name] == null ? "" : textOf(values[name]) || empty;
      return [parameter, text === usual ? "" : text];
    })), { isNew });
  }

  /* Searches for what the address holds, not for what was typed while the page opened. Returns the fields' values. */
  function openSearch(values, parameters) {
    isOpen = true;
    const asked = early === null && new URLSearchParams(location.search).has("q") ? values : { ...values, query: early ?? "" };
    beginSearch(asked, parameters, { isNew: false });
    return Object.values(asked);
  }

  /* Buttons in HTML that is drawn again and again: data-event names one of the events, the other data- attributes go
     with it. Gradio wants to see the names of events, in quotes, in the script that it is given. */
  function listen(element, trigger, events) {
    element.addEventListener("click", (event) => {
      const button = event.target.closest("button[data-event]");
      if (!button) return;
      const { event: name, ...data } = button.dataset;
      if (!events.includes(name)) return;
      if (data.confirm && !confirm(data.confirm)) return;
      for (const field of button.closest("[data-form]")?.querySelectorAll("[name]") ?? []) data[field.name] = field.value;
      if (data.grade !== undefined) {
        const isTakenBack = button.getAttribute("aria-pressed") === "true";
        data.grade = isTakenBack ? null : Number(data.grade);
        for (const each of button.parentElement.querySelectorAll("button")) each.setAttribute("aria-pressed", String(each === button && !isTakenBack));
      }
      if (data.values !== undefined) {
        for (const each of element.querySelectorAll("button[data-values]")) each.setAttribute("aria-pressed", String(each === button));
      }
      trigger(name, data);
    });
    /* Enter in a field presses the first button of its form. */
    element.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.isComposing || !event.target.matches("[data-form] input[name]")) return;
      event.preventDefault();
      event.target.closest("[data-form]").querySelector("button[data-event]")?.click();
    });
  }

  /* The server does not always know its own address; the browser does. */
  function showAddresses(element) {
    const show = () => {
      for (const field of element.querySelectorAll("input[data-path]")) {
        const address = new URL(field.dataset.path, location.href).href;
        if (field.value !== address) field.value = address;
      }
    };
    new MutationObserver(show).observe(element, { childList: true, subtree: true, attributes: true, attributeFilter: ["value", "data-path"] });
    show();
  }

  function listenForms(element, trigger, name) {
    element.addEventListener("submit", (event) => {
      event.preventDefault();
      const form = event.target, question = form.elements.question.value;
      if (question.trim()) trigger(name, { ...form.dataset, question });
    });
  }

  /* Once nobody has typed into the field for a moment; as long as the element is in the page. */
  const TYPING_MS = 500;
  function afterTyping(field, element, act) {
    let timer;
    const onInput = (event) => {
      if (!element.isConnected) { document.removeEventListener("input", onInput); return; }
      if (!event.target.closest(field)) return;
      clearTimeout(timer);
      timer = setTimeout(act, TYPING_MS);
    };
    document.addEventListener("input", onInput);
  }

  /* Names of fields end in 1 on the left side, in 2 on the right one. */
  function swapSides(values) {
    const other = (name) => name.replace(/[12]$/, (side) => (side === "1" ? "2" : "1"));
    return Object.keys(values).map((name) => values[other(name)]);
  }

  /* What is under the pointer, or has the focus, lights up with all else that has the same data-pair. */
  function lightPairs(element) {
    const light = (event) => {
      const pair = event.target.closest("[data-pair]")?.dataset.pair;
      for (const each of element.querySelectorAll("[data-pair]")) each.classList.toggle("is-lit", each.dataset.pair === pair);
      element.classList.toggle("has-lit", pair !== undefined);
    };
    for (const kind of ["mouseover", "focusin"]) element.addEventListener(kind, light);
    for (const kind of ["mouseleave", "focusout"]) element.addEventListener(kind, () => light({ target: element }));
  }

  /* Lists that are redrawn while a button in them has the focus: the same button keeps it, or the one in its place. What was opened stays open. */
  function keepFocus(element) {
    let last = null, subject = null, place = 0, hasActed = false, lostAt = Infinity;
    const buttons = () => [...element.querySelectorAll("[data-event]")].filter((each) => each.checkVisibility());
    const opened = new Map();
    element.addEventListener("toggle", ({ target }) => { if (target.dataset.keep) opened.set(target.dataset.keep, target.open); }, true);
    const nameOf = (node) => JSON.stringify({ ...node.dataset, confirm: "" });
    const subjectOf = ({ dataset }) => dataset.documents ?? dataset.document ?? dataset.subject;
    element.addEventListener("focusin", (event) => {
      const button = event.target.closest("[data-event]");
      last = button && nameOf(button);
      subject = button && subjectOf(button);
      place = buttons().indexOf(button);
      hasActed = false;
      lostAt = Infinity;
    });
    element.addEventListener("click", (event) => { if (event.target.closest("[data-event]")) hasActed = true; });
    /* Also told of when the button is taken out of the page; but then it is drawn again in the same moment. */
    element.addEventListener("focusout", () => { lostAt = performance.now(); });
    new MutationObserver(() => {
      for (const each of element.querySelectorAll("details[data-keep]")) {
        const wanted = opened.get(each.dataset.keep);
        if (wanted !== undefined && each.open !== wanted) each.open = wanted;
      }
      if (!last) return;
      const active = document.activeElement;
      /* Gradio changes elements in place: the one with the focus may have become another document's. */
      const hasChanged = element.contains(active) && active.matches("[data-event]") && nameOf(active) !== last;
      if (!hasChanged && (active !== document.body || performance.now() - lostAt > 200)) return;
      const same = [...element.querySelectorAll("[data-event]")].find((each) => nameOf(each) === last);
      /* A button that did its work may be gone: what stands in its place gets the focus, such as Undo. */
      const isHeir = hasActed && hasChanged && subject && subjectOf(active) === subject;
      const heir = same ?? (isHeir ? active : hasActed ? buttons()[Math.min(place, buttons().length - 1)] : null);
      if (heir === active) last = nameOf(active);
      else if (heir) heir.focus({ preventScroll: true });
      else if (hasChanged) active.blur();
    }).observe(element, { childList: true, subtree: true, attributes: true, attributeFilter: ["data-document", "data-documents", "data-subject", "data-action"] });
  }

  /* Gradio 6.31 ends its stream of answers when none is outstanding. If the page asks for one in that moment, its client
     takes the old stream for the one that will bring it, and waits for ever. So the end of a stream is held back while
     something is asked for or awaited, and another stream is opened in its place. */
  function keepListening() {
    const send = window.fetch.bind(window);

    /* The session has ended, or the server came back with access control on: this leads to where one logs in. */
    function leaveIfLoggedOut(found) {
      if (found.status === 401 && new URL(found.url).pathname.startsWith("/gradio_api/")) location.reload();
      return found;
    }

    const plain = (input, init) => send(input, init).then(leaveIfLoggedOut);
    const asking = new Set(), awaited = new Set(), answered = new Set();

    function ask(input, init) {
      const asked = plain(input, init).then(async (found) => {
        const { event_id } = found.ok ? await found.clone().json() : {};
        if (event_id && !answered.has(event_id)) awaited.add(event_id);
        if (!found.ok) hideSkeleton();
        return found;
      }, (error) => { hideSkeleton(); throw error; }).finally(() => asking.delete(asked));
      asking.add(asked);
      return asked;
    }

    /* Passes messages on; true when the last one was the end of the stream, which is not passed on. */
    async function pass(body, controller) {
      const reader = body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = ""; ;) {
        const { value, done } = await reader.read();
        if (done) return false;
        const messages = (rest + value).split("\n\n");
        rest = messages.pop();
        for (const each of messages) {
          const { msg, event_id } = each.startsWith("data:") ? JSON.parse(each.slice(5)) : {};
          if (msg === "close_stream") return true;
          if (msg === "process_completed") { awaited.delete(event_id); answered.add(event_id); }
          controller.enqueue(new TextEncoder().encode(each + "\n\n"));
        }
      }
    }

    async function follow(controller, first, input, init) {
      try {
        let hasEnded = await pass(first.body, controller);
        while (hasEnded) {
          await Promise.allSettled(asking);
          if (!awaited.size) {
            controller.enqueue(new TextEncoder().encode('data: {"msg":"close_stream","event_id":null}\n\n'));
            break;
          }
          const next = await plain(input, init);
          if (!next.ok) break;
          hasEnded = await pass(next.body, controller);
        }
        awaited.clear();
        answered.clear();
        controller.close();
      } catch (error) {
        controller.error(error);
      }
    }

    async function listen(input, init) {
      const first = await plain(input, init);
      if (!first.ok || !first.body) return first;
      const body = new ReadableStream({ start: (controller) => { follow(controller, first, input, init); } });
      return new Response(body, { status: first.status, headers: first.headers });
    }

    window.fetch = (input, init) => {
      const path = new URL(input.url ?? input, location.href).pathname;
      if (path.endsWith("/queue/join")) return ask(input, init);
      return path.endsWith("/queue/data") ? listen(input, init) : plain(input, init);
    };
  }

  /* Where access control is on, the header has a place for who is logged in. Readers see no buttons that only editors may use. */
  let account = null;
  function nameAccount() {
    const place = document.querySelector("[data-account]:empty");
    if (!place) return;
    account ??= fetch("/api/v1/me").then((answer) => answer.json()).catch(() => ({}));
    account.then((me) => {
      if (!place.textContent) place.textContent = me.name ?? "";
      root.classList.toggle("is-reader", me.role === "reader");
    });
  }

  hideUntilComplete();
  keepListening();
  addEventListener("popstate", onPopState);
  document.addEventListener("keydown", hideLeaving, true);
  document.addEventListener("keydown", onKey);
  document.addEventListener("click", onClick);
  document.addEventListener("toggle", placeMenu, true);

  /* Gradio puts this script into the page after the document was loaded, and chooses the colours of the system later still. */
  function start() {
    new MutationObserver(showTheme).observe(document.body, { attributes: true, attributeFilter: ["class"] });
    new MutationObserver(nameLanguage).observe(root, { attributes: true, attributeFilter: ["lang"] });
    new MutationObserver((changes) => { showTheme(); nameLanguage(); nameTitle(); nameAccount(); nameControls(); watchAnswers(changes); }).observe(document.body, { childList: true, subtree: true });
    showTheme();
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
  return { text, showSkeleton, hideSkeleton, remember, setAddress, named, beginSearch, openSearch, swapSides, lightPairs, listen, listenForms, showAnswer, afterTyping, keepFocus, showAddresses, openDialog };
})();

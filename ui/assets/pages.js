/* Page images of documents: selectable words over the image, the marked passage, zoom, paging, the next hit; and
   thumbnails in the list of hits. */
"use strict";
(() => {
  const { text } = window.gircse;
  const LARGEST = 4, STEP = 1.35, WIDEST = 2560;
  const canvas = document.createElement("canvas").getContext("2d");
  const address = (id, page) => `/api/v1/documents/${encodeURIComponent(id)}/pages/${page}`;
  const percent = (share) => `${(100 * share).toFixed(3)}%`;
  const make = (name, properties, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };

  /* Adjacent marked words share a rectangle. */
  function rectangles(words) {
    const found = [];
    let last = -2;
    words.forEach((word, at) => {
      if (!word.is_marked) return;
      const before = found[found.length - 1];
      const overlap = before ? Math.min(word.bottom, before.bottom) - Math.max(word.top, before.top) : 0;
      const isBeside = at === last + 1 && overlap > 0.5 * (word.bottom - word.top) && word.left >= before.left;
      if (isBeside) {
        before.right = Math.max(before.right, word.right);
        before.top = Math.min(before.top, word.top);
        before.bottom = Math.max(before.bottom, word.bottom);
      } else found.push({ ...word });
      last = at;
    });
    return found;
  }

  function place(element, { left, top, right, bottom }) {
    Object.assign(element.style, { left: percent(left), top: percent(top), width: percent(right - left), height: percent(bottom - top) });
    return element;
  }

  /* Scaled to the height and width of the word in the image, so that the selection covers it. */
  function wordSpan(word, page) {
    const span = place(make("span", { textContent: `${word.text} ` }), word); /* the space separates words in copied text */
    const height = (word.bottom - word.top) * page.height, width = (word.right - word.left) * page.width;
    canvas.font = "100px sans-serif";
    const natural = canvas.measureText(word.text).width / 100 * height;
    span.style.fontSize = `${(100 * (word.bottom - word.top)).toFixed(3)}cqh`;
    if (natural > 0) span.style.transform = `scaleX(${(width / natural).toFixed(4)})`;
    return span;
  }

  /* On a phone a whole page is too small to read: enlarged until the words of the passage are readable, and further as
     long as its lines fit. */
  const READABLE_PX = 12, COMFORTABLE_PX = 17, LARGEST_AT_OPENING = 3, USED_WIDTH = 0.96;
  function readableZoom(view, words) {
    const heights = words.map((word) => word.bottom - word.top).sort((one, other) => one - other);
    if (!heights.length) return 1;
    const sheet = view.querySelector(".page-sheet");
    sheet.style.width = percent(1);
    const height = heights[Math.floor(heights.length / 2)] * sheet.clientHeight;
    if (!height) return 1;
    const lines = Math.max(...words.map((word) => word.right)) - Math.min(...words.map((word) => word.left));
    const fitting = Math.min(COMFORTABLE_PX / height, USED_WIDTH / lines);
    return Math.min(LARGEST_AT_OPENING, Math.max(1, READABLE_PX / height, fitting));
  }

  /* `sentence`: the same page with the words of the best sentence marked, or null. */
  function drawSheet(view, page, sentence) {
    const { document: id } = view.dataset;
    const words = make("div", { className: "page-words" });
    words.append(...page.words.map((word) => wordSpan(word, page)));
    const draw = (words, className) => rectangles(words).map((each) => place(make("div", { className }), each));
    const marks = draw(page.words, "page-mark"), best = draw(sentence?.words ?? [], "page-sentence");
    const image = make("img", { alt: text("Page {page} of {pages}", { page: page.page, pages: page.pages }), draggable: false });
    const sheet = make("div", { className: "page-sheet" }, image, make("div", { className: `page-marks${best.length ? " has-sentence" : ""}` }, ...marks, ...best), words);
    sheet.style.aspectRatio = `${page.width} / ${page.height}`;
    view.replaceChildren(sheet);
    view.dataset.base = address(id, page.page);
    zoom(view, Number(view.dataset.zoom ?? readableZoom(view, page.words.filter((word) => word.is_marked))));
    const target = best[0] ?? marks[0];
    (target ?? sheet).scrollIntoView({ block: target ? "center" : "start", inline: Number(view.dataset.zoom) > 1 ? "start" : "nearest" });
  }

  /* Scales the page relative to its container and loads an image of matching resolution. */
  function zoom(view, factor) {
    const sheet = view.querySelector(".page-sheet");
    if (!sheet) return;
    const middle = (view.scrollTop + view.clientHeight / 2) / Math.max(1, view.scrollHeight);
    view.dataset.zoom = String(factor);
    sheet.style.width = percent(factor);
    const wanted = Math.min(WIDEST, Math.ceil(sheet.clientWidth * (window.devicePixelRatio || 1)) || 960);
    const image = sheet.querySelector("img");
    if (!image.dataset.width || Number(image.dataset.width) < wanted) {
      image.dataset.width = String(wanted);
      image.src = `${view.dataset.base}/image?width=${wanted}`;
    }
    view.scrollTop = middle * view.scrollHeight - view.clientHeight / 2;
  }

  async function draw(view) {
    const { document: id, page, start, end, sentenceStart, sentenceEnd } = view.dataset;
    const read = (first, last) => fetch(`${address(id, page)}?${new URLSearchParams({ start: first, end: last })}`);
    const dialog = view.closest("dialog"), placeShown = dialog.querySelector("[data-page-place]");
    view.setAttribute("aria-busy", "true");
    try {
      const hasSentence = Number(sentenceEnd) > Number(sentenceStart);
      const [answer, sentence] = await Promise.all([read(start, end), hasSentence ? read(sentenceStart, sentenceEnd) : null]);
      if (view.dataset.page !== page || !view.isConnected) return;
      const found = await answer.json();
      if (!answer.ok) throw new Error(found.detail);
      view.dataset.pages = found.pages;
      placeShown.textContent = text("Page {page} of {pages}", { page: found.page, pages: found.pages });
      drawSheet(view, found, sentence?.ok ? await sentence.json() : null);
    } catch (error) {
      view.replaceChildren(make("p", { className: "notice", textContent: error.message || text("This page cannot be displayed.") }));
      showText(dialog, true);
    } finally {
      view.removeAttribute("aria-busy");
      showSteps(dialog, view);
    }
  }

  function showSteps(dialog, view) {
    const page = Number(view.dataset.page), pages = Number(view.dataset.pages || page);
    for (const button of dialog.querySelectorAll("[data-page-step]")) {
      const to = page + Number(button.dataset.pageStep);
      button.disabled = to < 1 || to > pages;
    }
  }

  function turn(dialog, step) {
    const view = dialog.querySelector("[data-page-view]");
    const to = Number(view.dataset.page) + step;
    if (to < 1 || to > Number(view.dataset.pages || to)) return;
    view.dataset.page = String(to);
    draw(view);
  }

  function zoomBy(dialog, step) {
    const view = dialog.querySelector("[data-page-view]");
    const now = Number(view.dataset.zoom ?? 1);
    zoom(view, step === 0 ? 1 : Math.min(LARGEST, Math.max(0.5, now * STEP ** step)));
  }

  function showText(dialog, isText) {
    dialog.querySelector("[data-text-view]").hidden = !isText;
    const view = dialog.querySelector("[data-page-view]");
    view.hidden = isText;
    dialog.querySelector("[data-page-text]").setAttribute("aria-pressed", String(isText));
    const passage = isText && (dialog.querySelector("#sentence") || dialog.querySelector("#passage"));
    if (passage) passage.scrollIntoView({ block: "center" });
  }

  /* The hits on the page behind the dialog, in order. */
  const hits = () => [...document.querySelectorAll(".hit [data-walk][data-event='open']")];
  const placeOf = (dialog, all) => all.findIndex((each) => each.dataset.chunk && each.dataset.chunk === dialog.dataset.chunk);

  function showHits(dialog) {
    const tools = dialog.querySelector("[data-hit-tools]"), all = hits(), at = placeOf(dialog, all);
    if (!tools || at < 0 || all.length < 2) return;
    tools.hidden = false;
    tools.querySelector("[data-hit-place]").textContent = text("Hit {hit} of {hits}", { hit: at + 1, hits: all.length });
    for (const button of tools.querySelectorAll("[data-hit-step]")) button.disabled = !all[at + Number(button.dataset.hitStep)];
  }

  function stepHit(dialog, step) {
    const all = hits(), at = placeOf(dialog, all);
    if (at >= 0) all[at + step]?.click();
  }

  function onClick(event) {
    const button = event.target.closest("button");
    const dialog = button?.closest("dialog.document-view");
    if (!dialog) return;
    if (button.dataset.pageStep) turn(dialog, Number(button.dataset.pageStep));
    if (button.dataset.zoom) zoomBy(dialog, Number(button.dataset.zoom));
    if (button.dataset.hitStep) stepHit(dialog, Number(button.dataset.hitStep));
    if ("pageText" in button.dataset) showText(dialog, button.getAttribute("aria-pressed") !== "true");
  }

  function onKey(event) {
    const isOnBody = event.target === document.body; /* after a redraw removed the focused element */
    const dialog = isOnBody ? document.querySelector("dialog.document-view[open]") : event.target.closest?.("dialog.document-view[open]");
    if (!dialog || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")) return;
    const view = dialog.querySelector("[data-page-view]:not([hidden])");
    const isWide = view && view.scrollWidth > view.clientWidth + 1;
    const act = {
      n: () => stepHit(dialog, 1),
      p: () => stepHit(dialog, -1),
      ...(dialog.querySelector("[data-page-view]") && { t: () => showText(dialog, view !== null) }),
      ...(view && { "+": () => zoomBy(dialog, 1), "-": () => zoomBy(dialog, -1), 0: () => zoomBy(dialog, 0) }),
      ...(view && !isWide && { ArrowRight: () => turn(dialog, 1), ArrowLeft: () => turn(dialog, -1) }),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  /* Optional page thumbnails beside hits; the browser remembers the choice. */
  const KEPT = "gircse-thumbnails";
  const wanted = () => { try { return localStorage.getItem(KEPT) === "1"; } catch { return false; } };
  function showThumbnails() {
    const isOn = wanted();
    document.documentElement.classList.toggle("has-thumbnails", isOn);
    for (const button of document.querySelectorAll("[data-thumbnails]")) button.setAttribute("aria-pressed", String(isOn));
    if (!isOn) return;
    for (const hit of document.querySelectorAll("[data-thumbnail]")) {
      const image = make("img", { className: "thumbnail", alt: "", loading: "lazy", src: hit.dataset.thumbnail });
      image.addEventListener("click", () => hit.querySelector("[data-event='open']").click());
      image.addEventListener("error", () => image.remove());
      delete hit.dataset.thumbnail;
      hit.querySelector("article").prepend(image);
    }
  }
  function switchThumbnails() {
    try { localStorage.setItem(KEPT, wanted() ? "0" : "1"); } catch { /* private window: the choice is not stored */ }
    showThumbnails();
  }

  function look() {
    for (const view of document.querySelectorAll("dialog[open] [data-page-view]:not([data-is-drawn])")) {
      view.dataset.isDrawn = "";
      draw(view);
      view.focus({ preventScroll: true });
    }
    for (const dialog of document.querySelectorAll("dialog.document-view[open][data-chunk]:not([data-has-hits])")) {
      dialog.dataset.hasHits = "";
      showHits(dialog);
    }
    if (document.querySelector("[data-thumbnails]")) showThumbnails();
  }

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-thumbnails]")) switchThumbnails();
    onClick(event);
  });
  document.addEventListener("keydown", onKey);
  const watch = () => new MutationObserver(look).observe(document.body, {
    childList: true, subtree: true, attributes: true, attributeFilter: ["open"],
  });
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", watch);
  else watch();
})();

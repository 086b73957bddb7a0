/* Keeps the last chosen collection in a cookie, because the server needs it when a page opens, and in the links between
   pages, so that copied links contain it. Logging out deletes the cookie. */
"use strict";
(() => {
  const COOKIE = "gircse-collection", YEAR_S = 365 * 24 * 3600;
  const ALL = "*"; /* all collections at once; only the search page offers it */
  const LINKS = ".site-header nav a, .site-header a.brand";

  const kept = () => {
    const found = document.cookie.split("; ").find((each) => each.startsWith(COOKIE + "="));
    try { return found ? decodeURIComponent(found.slice(COOKIE.length + 1)) : ""; } catch { return ""; }
  };
  const write = (name, seconds) => {
    document.cookie = `${COOKIE}=${encodeURIComponent(name)}; path=/; max-age=${seconds}; samesite=lax`;
  };

  const asked = () => new URLSearchParams(location.search).get("collection") || kept();

  function carry() {
    const name = asked();
    for (const link of document.querySelectorAll(LINKS)) {
      const path = link.getAttribute("href").split("?")[0];
      const address = name ? `${path}?${new URLSearchParams({ collection: name })}` : path;
      if (link.getAttribute("href") !== address) link.setAttribute("href", address);
    }
  }

  let isOpening = true;
  function keepCollection(name) {
    if (typeof name !== "string" || !name) return;
    const isInPlace = isOpening && asked() === ALL && !new URLSearchParams(location.search).has("c"); /* of all collections: nobody chose it */
    isOpening = false;
    if (isInPlace && name !== ALL) return;
    write(name, YEAR_S);
    if (new URLSearchParams(location.search).has("collection")) {
      const address = new URL(location.href);
      address.searchParams.set("collection", name);
      window.gircse.setAddress(address);
    }
    carry();
  }

  /* Fills a <select> with the current collections, except one. */
  async function fillCollections(select, except) {
    const answer = await fetch("/api/v1/collections?limit=1000");
    if (!answer.ok) return;
    const names = (await answer.json()).map((each) => each.name).filter((name) => name !== except);
    const chosen = select.value;
    select.replaceChildren(...names.map((name) => new Option(name, name)));
    if (names.includes(chosen)) select.value = chosen;
  }

  document.addEventListener("submit", (event) => { if (event.target.matches("form.account")) write("", 0); });
  new MutationObserver((_, observer) => {
    if (!document.querySelector(LINKS)) return;
    observer.disconnect();
    carry();
  }).observe(document.documentElement, { childList: true, subtree: true });
  Object.assign(window.gircse, { keepCollection, fillCollections });
})();

// A search shows excerpts of the pages that it finds, and fetches the pages for it. A browser refuses that on a site
// that is opened from files; there the texts of all pages come from one script.
if (location.protocol === "file:" && location.pathname.endsWith("/search.html")) {
  const loaded = new Promise((resolve) => {
    const script = document.createElement("script");
    script.src = "_static/texts.js";
    script.onload = script.onerror = resolve;
    document.head.append(script);
  });
  const fetched = window.fetch;
  window.fetch = async (request, ...more) => {
    await loaded;
    const page = String(request).replace(/^\.\//, "").replace(/[?#].*$/, "");
    const text = (window.PAGE_TEXTS ?? {})[page];
    return text === undefined ? fetched(request, ...more) : new Response(text);
  };
}

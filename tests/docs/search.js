// Asks the built site as its page of search does, with its own scripts: node search.js SITE < queries > results (JSON).
"use strict";

const fs = require("fs");
const path = require("path");
const vm = require("vm");

const element = { replaceChildren() {}, childNodes: [], lastChild: null };
const page = vm.createContext({
  console,
  document: { getElementById: () => element, addEventListener() {}, readyState: "loading", documentElement: { dataset: {} } },
  localStorage: { setItem() {} },
  location: { search: "", hash: "" },
  DOCUMENTATION_OPTIONS: {},
  SPHINX_HIGHLIGHT_ENABLED: false,
});
page.window = page;
page._ = (text) => text;
page._ready = () => {}; // the page would begin to search

const [site] = process.argv.slice(2);
for (const name of ["_static/searchtools.js", "_static/language_data.js", "searchindex.js"]) {
  vm.runInContext(fs.readFileSync(path.join(site, name), "utf8"), page, { filename: name });
}
page.queries = JSON.parse(fs.readFileSync(0, "utf8"));
const found = vm.runInContext(
  `Object.fromEntries(queries.map((query) => [
    query,
    Search._performSearch(...Search._parseQuery(query)).reverse().map(([page, title, anchor]) => [page, anchor, title]),
  ]))`,
  page,
);
process.stdout.write(JSON.stringify(found));

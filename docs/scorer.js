// How the site ranks what a search finds, in place of Sphinx's own way: by whole words, and each page once, with the section of
// it that answers best. docs/conf.py indexes each section for itself, under the name page#section.
"use strict";

var Scorer = { objNameMatch: 50, objPartialMatch: 0, objPrio: {}, objPrioDefault: 0, term: 0, partialTerm: 0 };

const _wordsOf = new Map(); // of texts that were compared before
const _words = (text) => {
  const stem = (word) => (stopwords.has(word) ? word : new Stemmer().stemWord(word));
  if (!_wordsOf.has(text)) _wordsOf.set(text, [...new Set(splitQuery(text.toLowerCase()).map(stem))]);
  return _wordsOf.get(text);
};

Search._performSearch = (query, _terms, _excluded, _highlighted, objectTerms) => {
  const { docnames, filenames, titles, indexentries, terms, titleterms } = Search._index;
  const asked = _words(query);
  const weigh = (words) => words.reduce((sum, word) => sum + (stopwords.has(word) ? 0.25 : 1), 0);
  const begins = (word, whole) => word.length > 2 && whole.startsWith(word);

  // The share of the words that the query and a text have in common, from 0 to 1. The beginning of a word counts as half of it.
  const likeness = (text) => {
    const words = _words(text);
    const same = weigh(asked.filter((word) => words.includes(word)));
    const begun = weigh(asked.filter((word) => !words.includes(word) && words.some((whole) => begins(word, whole))));
    return (same + begun / 2) / (weigh(asked) + weigh(words) - same - begun);
  };

  const named = new Map(); // by the comments of sections
  for (const [entry, places] of Object.entries(indexentries)) {
    const score = 100 * likeness(entry);
    for (const [unit, , isOurs] of places) if (isOurs && score > (named.get(unit) ?? 0)) named.set(unit, score);
  }
  const written = asked.filter((word) => !stopwords.has(word) && !/^\d+$/.test(word)).map((word) => {
    const units = (all) =>
      Object.hasOwn(all, word) ? all[word] : Object.keys(all).flatMap((whole) => (begins(word, whole) ? all[whole] : []));
    return new Set([units(terms), units(titleterms)].flat());
  });

  const pages = new Map();
  docnames.forEach((name, unit) => {
    const [page, anchor] = name.split("#");
    const one = pages.get(page) ?? { page, best: -1, shown: 0, top: titles[unit], words: new Set(), often: 0 };
    const found = written.filter((units) => units.has(unit));
    const shown = Math.max(named.get(unit) ?? 0, 60 * likeness(titles[unit]));
    const score = shown + (10 * found.length) / (written.length || 1);
    found.forEach((units) => one.words.add(units));
    one.shown = Math.max(one.shown, shown);
    if (written.length && found.length === written.length) one.often++;
    if (score > one.best) Object.assign(one, { best: score, title: titles[unit], anchor, file: filenames[unit] });
    pages.set(page, one);
  });
  const results = new Map();
  for (const one of pages.values()) {
    let score = one.best + Math.min(one.often, 5);
    if (/^(safety-(figures|evidence|bounds)|parity-tests|performance|verified)/.test(one.page)) score *= 0.6;
    else if (/^(reference\/|parity|from-powertools|row-format)/.test(one.page)) score *= 0.8;
    const title = one.anchor ? `${one.top} > ${one.title}` : one.title;
    const isWhole = one.shown >= 30 || (written.length > 0 && one.words.size === written.length);
    const result = [one.page, title, one.anchor ? `#${one.anchor}` : "", null, score, one.file, SearchResultKind.text];
    if (one.shown || one.words.size) results.set(one.page, { isWhole, result });
  }
  for (const result of [...objectTerms].flatMap((term) => Search.performObjectSearch(term, objectTerms))) {
    const other = results.get(result[0]);
    if (result[4] > 0 && !(other?.result[4] >= result[4])) results.set(result[0], { isWhole: true, result });
  }
  const found = [...results.values()];
  const whole = found.filter((one) => one.isWhole);
  return (whole.length ? whole : found).map((one) => one.result).sort(_orderResultsByScoreThenName);
};

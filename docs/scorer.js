// How the site ranks what a search finds: pages that explain come before figures, tests and the reference.
"use strict";

var Scorer = {
  score: ([docName, , , , score]) => {
    if (/^(safety-(figures|evidence|bounds)|parity-tests|performance|verified)/.test(docName)) return score - 4;
    if (/^(reference\/|parity|from-powertools|stability)/.test(docName)) return score - 2;
    return score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 2, 1: 0, 2: -2 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

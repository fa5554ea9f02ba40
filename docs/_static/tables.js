// On a narrow screen, a table of texts that is wider than the screen, or whose texts are squeezed into a narrow column, is
// shown as a list: site.css says how.
"use strict";

for (const table of document.querySelectorAll("article table")) {
  const headings = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.trim());
  const room = table.parentElement.clientWidth;
  if (headings.length > 4 || !window.matchMedia("(max-width: 40em)").matches) continue;
  const isSqueezed = [...table.tBodies[0].rows].some((row) => row.offsetHeight > 200);
  if (table.scrollWidth <= room && !isSqueezed) continue;
  for (const row of table.tBodies[0].rows) {
    [...row.cells].forEach((cell, column) => {
      cell.hidden = !cell.textContent.trim();
      if (column && headings[column]) cell.dataset.heading = headings[column];
    });
  }
  table.classList.add("listed");
}

// On a narrow screen, a table of texts that is wider than the screen, or whose texts are squeezed into a narrow column, is
// shown as a list. A table of figures scrolls sideways, and says so. site.css says how.
"use strict";

const narrow = window.matchMedia("(max-width: 40em)");

const arrange = () => {
  if (!narrow.matches) return;
  for (const table of document.querySelectorAll("article table:not(.listed)")) {
    const frame = table.parentElement;
    const headings = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.trim());
    const cells = [...table.tBodies[0].querySelectorAll("td")];
    const isSqueezed = cells.some((cell) => cell.offsetWidth < 110 && cell.offsetHeight > 110);
    if (frame.scrollWidth <= frame.clientWidth && !isSqueezed) continue;
    const isOfTexts = cells.some((cell) => cell.cellIndex && cell.textContent.trim().length > 40);
    if (headings.length > 4 && !isOfTexts) {
      frame.classList.add("sideways");
      continue;
    }
    for (const cell of cells) {
      cell.classList.toggle("empty", !cell.textContent.trim());
      if (cell.cellIndex && headings[cell.cellIndex]) cell.dataset.heading = headings[cell.cellIndex];
    }
    table.classList.add("listed");
  }
};

arrange();
narrow.addEventListener("change", arrange);

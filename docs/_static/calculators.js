// The calculators of the pages about settings and costs. Each fills an element <div class="calculator" data-calculator="…">.
"use strict";
(() => {
  const CALCULATORS = {
    costs: {
      fields: [
        ["locks", "Locks taken in a month, in millions", 1], ["keys", "Keys of each lock", 1], ["permits", "Permits of a semaphore (0: a lock)", 0],
        ["waiting", "Share that has to wait, in percent", 5], ["looks", "Looks of a waiter at the row", 3],
        ["renewals", "Renewals of each lock (0 for most functions)", 0],
        ["events", "Events deduplicated in a month, in millions", 0], ["duplicates", "Duplicates among the deliveries, in percent", 1],
        ["write", "Price of a million write units, in dollars", 0.625], ["read", "Price of a million read units, in dollars", 0.125],
      ],
      say: costs,
    },
    settings: {
      fields: [
        ["timeout", "Function timeout, in seconds", 30], ["work", "The work under the lock at its longest, in seconds", 5],
        ["before", "What comes before the lock, in seconds", 0.5], ["lease", "lease_duration, in seconds", 20],
        ["batch", "Records in a batch, each with a lock (1: no batch)", 1],
      ],
      say: settings,
    },
  };

  function costs(given) {
    const size = given.permits ? 0.15 + 0.1757 * given.permits : 0.2; // KB, see semaphores.html
    const unit = Math.ceil(size), look = Math.ceil(size / 4), waits = given.locks * given.waiting / 100;
    const writes = given.locks * given.keys * (2 + given.renewals) * unit + waits * 2 * unit;
    const reads = waits * given.looks * look;
    const events = given.events * (1 - given.duplicates / 100) * 2 + given.events * given.duplicates / 100;
    const total = (writes + events) * given.write + reads * given.read;
    const second = Math.floor(1000 / (unit * 2));
    return {lines: [
      `${dollars(total)} a month: ${number(writes + events)} million write units and ${number(reads)} million read units.`,
      `One key can be taken and given back at most ${second} times a second: DynamoDB gives one row 1,000 write units a second.`,
    ]};
  }
  function settings(given) {
    const lines = [], reserve = Math.max(1, given.work * 1.25), left = Math.max(0, given.timeout - given.before);
    const wait = left - reserve, chosen = left / 4;
    if (given.work > left) lines.push(["The work does not fit into the function timeout. Raise the timeout, or divide the work.", true]);
    else if (wait <= 0) lines.push(["There is no time to wait: use wait=0, or raise the function timeout.", true]);
    else lines.push([`wait: up to ${number(wait)} s. With wait=None it is the time left less reserve.`]);
    lines.push([`reserve=${number(Math.ceil(reserve * 10) / 10)}: the longest work and a quarter. The default is ${number(Math.max(1, chosen))} s${chosen < given.work ? ", which is too short here" : ""}.`, chosen < given.work]);
    const renewed = given.lease - 1.5 < left;
    lines.push([`lease_duration=${number(given.lease)}: ${renewed ? "shorter than the time left, so a heartbeat thread renews it" : "it is cut to the deadline, so no heartbeat is needed"}. If the function is killed at its timeout, others wait at most 2 s; if its environment dies otherwise, at most ${number(Math.min(given.lease, left) + 2)} s.`]);
    lines.push([`Visibility timeout of the queue: at least ${number(given.timeout * 6)} s, six times the function timeout.`]);
    if (given.batch > 1 && given.batch * given.work > left)
      lines.push([`A batch of ${number(given.batch)} may not fit: ${number(given.batch)} × ${number(given.work)} s is more than ${number(left)} s. What is not started goes back to the queue.`, true]);
    return {lines, bars: [["timeout", 0, given.timeout], ["wait", given.before, Math.max(given.before, given.before + wait)],
      ["work", Math.max(given.before, given.before + wait), Math.min(given.timeout, Math.max(given.before, given.before + wait) + given.work)]], end: given.timeout};
  }

  const number = value => (Math.round(value * 100) / 100).toLocaleString("en");
  const dollars = value => `$${value.toLocaleString("en", {minimumFractionDigits: 2, maximumFractionDigits: 2})}`;
  function element(name, attributes, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }
  function drawn({bars, end}) {
    const space = "http://www.w3.org/2000/svg", svg = document.createElementNS(space, "svg");
    svg.setAttribute("viewBox", "0 0 600 96");
    svg.setAttribute("role", "img");
    bars.forEach(([name, from, to], row) => {
      const bar = document.createElementNS(space, "rect"), label = document.createElementNS(space, "text");
      const place = {x: 70 + 520 * from / end, y: 6 + row * 30, width: Math.max(1, 520 * (to - from) / end), height: 22, rx: 3};
      for (const [key, value] of Object.entries(place)) bar.setAttribute(key, value);
      bar.setAttribute("fill", ["#8a93a0", "#c98a2b", "#2f8f6b"][row]);
      label.setAttribute("y", 22 + row * 30);
      label.setAttribute("font-size", 14);
      label.setAttribute("fill", "currentColor");
      label.textContent = name;
      svg.append(bar, label);
    });
    return svg;
  }
  function fill(place) {
    const {fields, say} = CALCULATORS[place.dataset.calculator], output = element("output", {}), inputs = {};
    place.replaceChildren();
    for (const [name, label, value] of fields) {
      inputs[name] = element("input", {type: "number", min: "0", step: "any", value, name, required: ""});
      place.append(element("label", {}, label, inputs[name]));
    }
    place.append(output);
    const show = () => {
      if (Object.values(inputs).some(input => !input.validity.valid)) return output.replaceChildren("Each field needs a number, 0 or more.");
      const said = say(Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.valueAsNumber])));
      output.replaceChildren(...said.lines.map(line => Array.isArray(line) ? element("p", line[1] ? {class: "warn"} : {}, line[0]) : element("p", {}, line)));
      if (said.bars && said.end > 0) output.append(drawn(said));
    };
    place.addEventListener("input", show);
    show();
  }
  const start = () => document.querySelectorAll("[data-calculator]").forEach(fill);
  document.readyState === "loading" ? document.addEventListener("DOMContentLoaded", start) : start();
})();

// Elements from data. Text is only ever set as text, so that a label can never become markup.

/** An element with attributes, listeners (onclick ...) and children; null and false are left out. */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled" || name === "hidden") made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/** Put new children into a place; the control that had the focus has it again when it is still there. */
export function fill(place, ...children) {
  const active = document.activeElement;
  const id = place.contains(active) ? active.id : "";
  const caret = id && active.type === "search" ? active.selectionStart : null;
  const open = new Set([...place.querySelectorAll("details[open]")].map((one) => one.id));
  const scrolled = [...place.querySelectorAll("[data-scroll]")].map((one) => [one.id, one.scrollTop]);
  place.replaceChildren(...children.flat().filter(Boolean));
  for (const details of place.querySelectorAll("details")) if (open.has(details.id)) details.open = true;
  for (const [name, top] of scrolled) {
    const one = document.getElementById(name);
    if (one) one.scrollTop = top;
  }
  if (!id) return;
  const again = document.getElementById(id);
  if (!again || again === document.activeElement) return;
  again.focus({ preventScroll: true });
  if (caret !== null) again.setSelectionRange(caret, caret);
}

/** A labelled list to choose one value from: options are [value, text] or { group, options }. */
export function choice(id, label, options, chosen, onchange) {
  const one = ([value, text]) => el("option", { value, selected: value === chosen }, text);
  const list = options.map((each) =>
    each.group ? el("optgroup", { label: each.group }, each.options.map(one)) : one(each),
  );
  const select = el("select", { id, onchange: () => onchange(select.value) }, list);
  return el("label", { class: "field", for: id }, el("span", {}, label), select);
}

/** Several buttons of which one is pressed. */
export function buttons(label, options, chosen, onclick) {
  return el(
    "div",
    { class: "switch", role: "group", "aria-label": label },
    options.map(([value, text, disabled, title]) =>
      el(
        "button",
        {
          type: "button",
          id: `choose-${value}`,
          "aria-pressed": String(value === chosen),
          disabled: Boolean(disabled),
          title,
          onclick: () => onclick(value),
        },
        text,
      ),
    ),
  );
}

// A list of any length. Only the visible rows are in the page.

import { component, computed, effect, html, signal } from "../view.js";

const OVERSCAN = 8;

/**
 * @typedef {object} GridProps
 * @property {string} label
 * @property {any[]} rows
 * @property {number} rowHeight
 * @property {(row: any) => any} draw  Draws the cells of a row.
 * @property {(row: any) => string} href
 * @property {string[]} [heads]
 * @property {string} [kind]  The CSS class for its columns.
 * @property {string | null} [selected]  The id of the open row.
 * @property {() => void} [onEnd]  Called when the last rows become visible.
 */

/** @type {import("../../vendor/preact.js").ComponentType<GridProps>} */
export const Grid = component((life) => {
  const scroll = signal(0);
  const height = signal(600);
  const active = signal(0);
  /** @type {{current: HTMLElement | null}} */
  const box = { current: null };
  const props = life.given;

  const range = computed(() => {
    const size = props.value.rowHeight;
    const start = Math.max(0, Math.floor(scroll.value / size) - OVERSCAN);
    const end = Math.min(props.value.rows.length, Math.ceil((scroll.value + height.value) / size) + OVERSCAN);
    return `${start} ${end}`;
  });

  life.onMount(() => {
    const element = /** @type {HTMLElement} */ (box.current);
    const onScroll = () => (scroll.value = element.scrollTop);
    element.addEventListener("scroll", onScroll, { passive: true });
    const observer = new ResizeObserver(() => (height.value = element.clientHeight));
    observer.observe(element);
    const stop = effect(() => {
      const { rows, onEnd } = props.value;
      if (Number(range.value.split(" ")[1]) >= rows.length) onEnd?.();
    });
    return () => (observer.disconnect(), stop());
  });

  /** @param {number} index */
  const focusRow = (index) => {
    const { rows, rowHeight } = props.peek();
    const next = Math.max(0, Math.min(rows.length - 1, index));
    const element = /** @type {HTMLElement} */ (box.current);
    active.value = next;
    const top = next * rowHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + rowHeight * 2 > element.scrollTop + element.clientHeight) element.scrollTop = top + rowHeight * 2 - element.clientHeight;
    scroll.value = element.scrollTop;
    setTimeout(() => /** @type {HTMLElement | null} */ (element.querySelector(`[data-index="${next}"]`))?.focus());
  };

  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    const moves = /** @type {Record<string, number>} */ ({ ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: 12, PageUp: -12, Home: -1e9, End: 1e9 });
    const move = moves[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (move !== undefined) {
      event.preventDefault();
      event.stopPropagation();
      focusRow(active.peek() + move);
    } else if (event.key === "Enter" || event.key === "o") {
      const row = props.peek().rows[active.peek()];
      if (row && event.target instanceof HTMLElement && event.target.getAttribute("role") === "row") {
        event.preventDefault();
        event.stopPropagation();
        location.hash = props.peek().href(row).slice(1);
      }
    }
  };

  return (now) => {
    const { rows, rowHeight, draw, heads } = now;
    const [start = 0, end = 0] = range.value.split(" ").map(Number);
    return html`<div class=${`grid ${now.kind ?? ""}`} role="grid" aria-label=${now.label} aria-rowcount=${rows.length + 1} ref=${(/** @type {any} */ element) => (box.current = element)} onKeyDown=${onKey}>
      ${heads && html`<div class="grid-head" role="row" aria-rowindex="1">${heads.map((head) => html`<span role="columnheader" key=${head}>${head}</span>`)}</div>`}
      <div class="grid-space" role="presentation" style=${{ height: `${rows.length * rowHeight}px` }}>
        ${rows.slice(start, end).map((row, at) => {
          const index = start + at;
          return html`<div
            key=${row.id}
            class=${`grid-row${row.id === now.selected ? " selected" : ""}`}
            role="row"
            aria-rowindex=${index + 2}
            aria-selected=${row.id === now.selected ? "true" : null}
            data-index=${index}
            data-id=${row.id}
            tabindex=${index === Math.min(active.value, rows.length - 1) ? 0 : -1}
            style=${{ transform: `translateY(${index * rowHeight}px)`, height: `${rowHeight}px` }}
            onFocus=${() => (active.value = index)}
            onClick=${(/** @type {MouseEvent} */ event) => {
              if (!(event.target instanceof Element && event.target.closest("a, button"))) location.hash = now.href(row).slice(1);
            }}
          >${draw(row)}</div>`;
        })}
      </div>
    </div>`;
  };
});

// A chart over time. The drawing library is loaded with the first chart. A button shows the same numbers as
// a table.

import { component, effect, html, signal } from "../view.js";
import { t } from "../words.js";

/**
 * @typedef {{label: string, color: string, values: (number | null)[], kind?: "bars" | "area" | "line"}} Series
 * @typedef {{title: string, times: number[], series: Series[], format: (value: number) => string, label: (time: number) => string, total?: string, max?: number, least?: number}} ChartProps  `least`: the minimum for the top of the scale
 */

function addStyle() {
  if (document.getElementById("uplot-style")) return;
  const link = Object.assign(document.createElement("link"), { id: "uplot-style", rel: "stylesheet", href: "/ui/vendor/uplot.css" });
  document.head.append(link);
}

/** Returns a colour of the style sheet in the form that the canvas accepts. @param {HTMLElement} element @param {string} name */
function color(element, name) {
  element.style.color = `var(--${name})`;
  const found = getComputedStyle(element).color;
  element.style.color = "";
  return found;
}

/** @type {import("../../vendor/preact.js").ComponentType<ChartProps>} */
export const Chart = component((life) => {
  const asTable = signal(false);
  const schemes = matchMedia("(prefers-color-scheme: dark)");
  const scheme = signal(0);
  /** @type {import("../../vendor/signals.js").Signal<HTMLElement | null>} */
  const box = signal(null);
  const hint = signal("");
  /** @type {any} */
  let plot = null;

  /** @param {any} uPlot @param {HTMLElement} element @param {ChartProps} props */
  const draw = (uPlot, element, props) => {
    plot?.destroy();
    const axis = { stroke: color(element, "faint"), grid: { stroke: color(element, "line"), width: 1 }, ticks: { show: false }, font: `11px ${getComputedStyle(document.body).fontFamily}` };
    const step = (props.times[1] ?? 0) - (props.times[0] ?? 0) || 3600;
    const bars = uPlot.paths.bars({ size: [0.7, 40], radius: 0.15 });
    plot = new uPlot(
      {
        width: element.clientWidth || 400,
        height: 150,
        legend: { show: false },
        cursor: { y: false, points: { show: false } },
        scales: { x: { time: true, range: (/** @type {any} */ _, /** @type {number} */ low, /** @type {number} */ high) => [low - step / 2, high + step / 2] }, y: { range: (/** @type {any} */ _, /** @type {number} */ __, /** @type {number} */ high) => [0, props.max ?? Math.max(high * 1.1, props.least ?? 1)] } },
        axes: [
          { ...axis, size: 24, space: 60, values: (/** @type {any} */ _, /** @type {number[]} */ at) => at.map((time) => props.label(time)) },
          { ...axis, size: 58, space: 34, values: (/** @type {any} */ _, /** @type {number[]} */ at) => at.map((value) => props.format(value)) },
        ],
        series: [{}, ...props.series.map((one) => ({ label: one.label, stroke: color(element, one.color), fill: one.kind === "line" ? undefined : `color-mix(in srgb, ${color(element, one.color)} ${one.kind === "area" ? 30 : 75}%, transparent)`, width: one.kind === "bars" ? 0 : 1.5, points: { show: one.kind !== "bars" && one.values.filter((value) => value !== null).length < 3, size: 5 }, paths: one.kind === "bars" ? bars : undefined, spanGaps: false }))],
        hooks: {
          setCursor: [
            (/** @type {any} */ self) => {
              const at = self.cursor.idx;
              const { times, series, label, format } = life.given.peek();
              hint.value = at === null || at === undefined || times[at] === undefined ? "" : `${label(times[at])} · ${series.map((one) => `${one.label} ${format(one.values[at] ?? 0)}`).join(" · ")}`;
            },
          ],
        },
      },
      [props.times, ...props.series.map((one) => one.values)],
      element,
    );
  };

  life.onMount(() => {
    const recolour = () => (scheme.value += 1);
    schemes.addEventListener("change", recolour);
    const observer = new ResizeObserver(() => box.peek() && plot?.setSize({ width: box.peek()?.clientWidth ?? 400, height: 150 }));
    const stop = effect(() => {
      const element = box.value;
      const props = life.given.value;
      scheme.value;
      if (!element) return;
      observer.observe(element);
      addStyle();
      void import("../../vendor/uplot.js").then(({ default: uPlot }) => box.peek() === element && draw(uPlot, element, props));
    });
    return () => (stop(), observer.disconnect(), plot?.destroy(), schemes.removeEventListener("change", recolour));
  });

  return ({ title, times, series, format, label, total }) => html`<figure class="chart">
    <figcaption><h2>${title}</h2>${total && html`<span class="total">${total}</span>`}
      <span class="keys">${series.length > 1 && series.map((one) => html`<span key=${one.label} class=${`key ${one.color}`}>${one.label}</span>`)}</span>
    </figcaption>
    ${asTable.value
      ? html`<div class="table-scroll" tabindex="0"><table><thead><tr><th>${t("time")}</th>${series.map((one) => html`<th key=${one.label} class="end">${one.label}</th>`)}</tr></thead>
          <tbody>${times.map((time, row) => html`<tr key=${time}><td>${label(time)}</td>${series.map((one) => html`<td key=${one.label} class="end">${one.values[row] === null ? "–" : format(one.values[row] ?? 0)}</td>`)}</tr>`)}</tbody></table></div>`
      : html`<div class="plot" role="img" aria-label=${`${title}${total ? `: ${total}` : ""}`} ref=${(/** @type {any} */ element) => queueMicrotask(() => (box.value = element))}></div>`}
    <div class="chart-foot"><span class="plot-hint faint" aria-hidden="true">${hint.value}</span><button type="button" class="quiet small" aria-pressed=${asTable.value ? "true" : "false"} onClick=${() => (asTable.value = !asTable.peek())}>${t("as_table")}</button></div>
  </figure>`;
});

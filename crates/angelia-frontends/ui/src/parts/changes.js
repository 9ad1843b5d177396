// The agent's changes by file, as the agent itself reported them.

import { turnChanges } from "../diff.js";
import { shortPath, visible } from "../format.js";
import { component, html } from "../view.js";
import { t } from "../words.js";
import { Diff } from "./diff.js";
import { Empty } from "./feedback.js";

/** @type {import("../../vendor/preact.js").ComponentType<{streams: import("./turn_stream.js").TurnStream[]}>} */
export const Changes = component(() => {
  return ({ streams }) => {
    const files = turnChanges(streams.flatMap((stream) => stream.view.value.parts));
    const sum = (/** @type {"added" | "removed"} */ field) => files.reduce((all, file) => all + file[field], 0);
    return html`<section class="changes" aria-label=${t("changes")}>
      <header><h2>${t("changes")}</h2>${files.length > 0 && html`<span class="faint">${t(files.length === 1 ? "file_one" : "files", files.length)} <span class="plus">+${sum("added")}</span> <span class="minus">−${sum("removed")}</span></span>`}</header>
      <p class="faint small">${t("as_said")}</p>
      ${files.length === 0 && html`<${Empty} title=${t("no_changes")} />`}
      ${files.map((file) => html`<details class="file" key=${file.path} open>
        <summary><code title=${visible(file.path)}>${shortPath(visible(file.path))}</code> <span class="plus">+${file.added}</span> <span class="minus">−${file.removed}</span> <span class=${`tag ${file.state}`}>${t(`change_${file.state}`)}</span></summary>
        <${Diff} lines=${file.lines} label=${t("changes_of", visible(file.path))} />
      </details>`)}
    </section>`;
  };
});

// Components whose local state and inputs are signals. A component's setup runs once per instance and
// returns the function that renders it. That function runs again when a signal that it has read changes.

import { Component, h, render } from "../vendor/preact.js";
import htm from "../vendor/htm.js";
import { batch, computed, effect, signal, untracked } from "../vendor/signals.js";

export { batch, computed, effect, signal, untracked, render };

export const html = htm.bind(h);

/**
 * @template P
 * @typedef {object} Life  What a setup can use.
 * @property {import("../vendor/signals.js").ReadonlySignal<P>} given  The current properties.
 * @property {(run: () => (void | (() => void))) => void} onMount  Runs when the component is in the page. The returned function runs at the end.
 * @property {(run: () => void) => void} onEnd
 */

/**
 * Creates a component.
 * @template {object} P
 * @param {(life: Life<P>) => (props: P) => unknown} setup
 * @returns {import("../vendor/preact.js").ComponentType<P>}
 */
export function component(setup) {
  class Live extends Component {
    /** @param {P} props */
    constructor(props) {
      super(props);
      /** @type {(() => (void | (() => void)))[]} */
      this.mounts = [];
      /** @type {(() => void)[]} */
      this.ends = [];
      this.given = signal(props);
      const life = {
        given: this.given,
        onMount: (/** @type {() => (void | (() => void))} */ run) => void this.mounts.push(run),
        onEnd: (/** @type {() => void} */ run) => void this.ends.push(run),
      };
      const draw = untracked(() => setup(life));
      this.drawn = computed(() => draw(this.given.value));
    }

    componentDidMount() {
      let first = true;
      this.ends.push(
        effect(() => {
          this.drawn.value;
          if (!first) this.setState({});
          first = false;
        }),
      );
      for (const run of this.mounts) {
        const end = untracked(run);
        if (end) this.ends.push(end);
      }
    }

    componentWillUnmount() {
      for (const run of this.ends) run();
    }

    /** @param {P} props */
    render(props) {
      if (!isSame(props, this.given.peek())) this.given.value = props;
      return this.drawn.value;
    }
  }
  return /** @type {any} */ (Live);
}

/**
 * @param {any} one
 * @param {any} other
 */
function isSame(one, other) {
  const keys = Object.keys(one);
  return keys.length === Object.keys(other).length && keys.every((key) => one[key] === other[key]);
}

/** Joins class names, without falsy values. @param {...(string | false | null | undefined)} names */
export function classes(...names) {
  return names.filter(Boolean).join(" ");
}

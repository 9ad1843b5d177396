export type ComponentType<P> = (props: P) => unknown;

export class Component<P = any, S = any> {
  constructor(props: P);
  props: P;
  state: S;
  setState(state: Partial<S>): void;
}

export function h(type: unknown, props: object | null, ...children: unknown[]): unknown;
export function render(view: unknown, parent: Element): void;

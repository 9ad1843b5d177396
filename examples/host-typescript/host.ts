/**
 * A small host application for `angelia bridge`, with nothing but Node.js.
 *
 *     npx tsc && node dist/host.js "What is in this folder?" "And in its largest file?"
 *
 * Each argument is one turn of the same conversation; run it again and the conversation goes on.
 * `Bridge` is the part to take along; `main` shows how it is used. The protocol is in docs/bridge.md.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";

/** What every event of a run carries. */
interface OfRun {
  request_id: string;
  session_id: string;
}

/** The events that this host looks at; others pass by. */
export type BridgeEvent =
  | (OfRun & { type: "run_started"; turn_id: string; executor: string; model: string | null })
  | (OfRun & { type: "tool_started"; tool_id: string; name: string; title: string; input: unknown })
  | (OfRun & { type: "tool_finished"; tool_id: string; ok: boolean; output: string })
  | (OfRun & {
      type: "approval_requested";
      approval_id: string;
      kind: "tool" | "question";
      title: string;
      questions?: { text: string; options: { label: string }[] }[];
    })
  | (OfRun & { type: "notice"; level: string; code: string; text: string })
  | (OfRun & { type: "assistant_delta"; index: number; text: string })
  | (OfRun & { type: "assistant_delta_end"; index: number })
  | (OfRun & { type: "assistant_message"; index: number; text: string })
  | (OfRun & {
      type: "final";
      status: "completed" | "partial" | "interrupted" | "failed" | "parked";
      response: string;
      usage: { output_tokens: number };
      error?: { kind: string; message: string };
    })
  | { type: "pong" | "shutdown_ack" | "interrupt_ack"; request_id?: string }
  | { type: "error"; code: string; message: string; request_id?: string };

export interface RunOptions {
  profile?: string;
  cwd?: string;
  model?: string;
  assistant_delta?: boolean;
  native_stream?: boolean;
  native_assistant_delta?: boolean;
  idempotency_key?: string;
}

/** A request that was refused; `code` says why. */
export class BridgeError extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** One `angelia bridge` process. Runs of different sessions may be under way at once. */
export class Bridge {
  private readonly process: ChildProcess;
  private readonly waiting = new Map<string, (event: BridgeEvent | null) => void>();
  private count = 0;

  constructor(program = "angelia", ...flags: string[]) {
    this.process = spawn(program, ["bridge", ...flags], { stdio: ["pipe", "pipe", "inherit"] });
    // Always reading is the host's part of the bargain: events wait for whoever asked.
    const lines = createInterface({ input: this.process.stdout! });
    lines.on("line", (line) => this.take(JSON.parse(line) as BridgeEvent));
    lines.on("close", () => this.waiting.forEach((tell) => tell(null)));
  }

  /** Runs one turn and yields its events as they come; the last one is `final`. */
  async *run(session_id: string, message: string, options: RunOptions = {}) {
    const [request_id, next] = this.expect();
    try {
      this.send({ type: "run", request_id, session_id, message, ...options });
      for (;;) {
        const event = await next();
        if (event === null) throw new Error("the bridge has gone");
        if (event.type === "error") throw new BridgeError(event.code, event.message);
        yield event;
        if (event.type === "final") return;
      }
    } finally {
      this.waiting.delete(request_id);
    }
  }

  interrupt(session_id: string, message?: string) {
    this.send({ type: "interrupt", session_id, message });
  }

  approve(
    approval_id: string,
    verdict: "once" | "session" | "deny" | "stop",
    answers: Record<string, string> = {},
  ) {
    this.send({ type: "approve", approval_id, verdict, answers });
  }

  /** Ends the bridge; what still runs is interrupted and gets its `final`. */
  async close(): Promise<number | null> {
    const exited = once(this.process, "exit");
    const [request_id, next] = this.expect();
    this.send({ type: "shutdown", request_id });
    await next();
    this.process.stdin!.end();
    const [code] = await exited;
    return code as number | null;
  }

  private send(request: object) {
    this.process.stdin!.write(`${JSON.stringify(request)}\n`);
  }

  /** A new request's id, and its events one after the other. */
  private expect(): [string, () => Promise<BridgeEvent | null>] {
    const request_id = `ts-${++this.count}`;
    const come: (BridgeEvent | null)[] = [];
    let wake = () => {};
    this.waiting.set(request_id, (event) => {
      come.push(event);
      wake();
    });
    const next = async () => {
      while (come.length === 0) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      return come.shift() ?? null;
    };
    return [request_id, next];
  }

  private take(event: BridgeEvent) {
    const tell = event.request_id === undefined ? undefined : this.waiting.get(event.request_id);
    if (tell !== undefined) tell(event);
    else if (event.type === "error") console.error(`bridge: ${event.code}: ${event.message}`);
  }
}

/** Answers an approval: by the flag here; a real host would ask its user. */
function decide(
  bridge: Bridge,
  event: Extract<BridgeEvent, { type: "approval_requested" }>,
  yes: boolean,
) {
  const questions = event.questions ?? [];
  const answers = Object.fromEntries(questions.map((q) => [q.text, q.options[0]?.label ?? ""]));
  console.log(`[${event.kind}] ${event.title} -> ${yes ? "yes" : "no"}`);
  bridge.approve(event.approval_id, yes ? "once" : "deny", answers);
}

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      angelia: { type: "string", default: "angelia" },
      session: { type: "string", default: "host-typescript" },
      yes: { type: "boolean", default: false },
    },
  });
  const bridge = new Bridge(values.angelia, "--native-stream", "--native-assistant-delta");
  let status = "completed";
  for (const prompt of positionals) {
    for await (const event of bridge.run(values.session, prompt)) {
      if (event.type === "assistant_delta") process.stdout.write(event.text);
      else if (event.type === "assistant_delta_end") process.stdout.write("\n");
      else if (event.type === "tool_started") console.log(`[tool] ${event.title}`);
      else if (event.type === "approval_requested") decide(bridge, event, values.yes);
      else if (event.type === "final") {
        status = event.status;
        console.log(`[${status}] ${event.usage.output_tokens} tokens out`);
      }
    }
  }
  await bridge.close();
  return status === "completed" || status === "partial" ? 0 : 1;
}

process.exitCode = await main();

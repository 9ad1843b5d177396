// The official library for AI bots of WeCom, unmodified, on the fake server: a message answered by a stream, a card,
// its press and its update, a push, an upload, a file of a person, a refusal, and a displaced connection.

import { createRequire } from "node:module";

const require = createRequire(process.env.WECOM_MODULES + "/x.js");
const { WSClient, generateReqId } = require("@wecom/aibot-node-sdk");

const quiet = { debug() {}, info() {}, warn() {}, error: (...words) => console.error(...words) };
const options = { wsUrl: process.env.WECOM_URL, heartbeatInterval: 200, logger: quiet };
const client = new WSClient({ botId: process.env.WECOM_BOT, secret: process.env.WECOM_SECRET, ...options });

function fail(error) {
  console.error("failed:", error);
  process.exit(1);
}

client.on("message.text", async (frame) => {
  const stream = generateReqId("stream");
  const words = frame.body.text.content;
  await client.replyStream(frame, stream, "got", false);
  await client.replyStream(frame, stream, `got ${words}`, true);
  try {
    await client.replyStream(frame, stream, "too late", true);
    fail("a stream that is over was changed");
  } catch (refusal) {
    if (refusal.errcode !== 846608) fail(refusal);
  }
  await client.sendMessage(frame.body.from.userid, {
    msgtype: "template_card",
    template_card: {
      card_type: "button_interaction",
      main_title: { title: "really?" },
      button_list: [{ text: "Yes", key: "y", style: 1 }],
      task_id: "task_1",
    },
  });
});

client.on("event.template_card_event", async (frame) => {
  if (frame.body.event.event_key !== "y") fail("the key of the press");
  await client.updateTemplateCard(frame, {
    card_type: "text_notice",
    main_title: { title: "decided" },
    task_id: frame.body.event.task_id,
  });
});

client.on("message.file", async (frame) => {
  const { buffer, filename } = await client.downloadFile(frame.body.file.url, frame.body.file.aeskey);
  if (filename !== "notes.txt") fail(filename);
  // More than one part.
  const content = Buffer.concat([buffer, Buffer.alloc(600 * 1024, "x")]);
  const media = await client.uploadMedia(content, { type: "file", filename: "back.txt" });
  await client.sendMediaMessage(frame.body.from.userid, "file", media.media_id);
  await client.sendMessage(frame.body.from.userid, { msgtype: "markdown", markdown: { content: "**sent**" } });
  try {
    await client.sendMessage("blocked", { msgtype: "markdown", markdown: { content: "x" } });
    fail("a message reached nobody");
  } catch (refusal) {
    if (!refusal.errcode) fail(refusal);
  }
});

client.on("event.disconnected_event", () => {
  const wrong = new WSClient({ botId: "x", secret: "y", maxAuthFailureAttempts: 0, ...options, logger: { ...quiet, error() {} } });
  wrong.on("error", (error) => {
    if (!String(error).includes("Authentication failed")) return;
    console.log("all right");
    process.exit(0);
  });
  wrong.connect();
});

setTimeout(() => fail("it took too long"), 60_000);
client.connect();

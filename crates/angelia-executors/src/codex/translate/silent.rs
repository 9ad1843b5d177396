//! What is not passed on.

/// What is said but not passed on, and why. The names are those `Native` would have.
pub const SILENT: &[(&str, &str)] = &[
    ("thread/started", "the answer to our request says it"),
    ("thread/status/changed", "the turn says it"),
    ("thread/readState/changed", "for lists of threads"),
    (
        "thread/settings/updated",
        "our own settings come back; the model is taken from it",
    ),
    ("thread/name/updated", "for lists of threads"),
    ("thread/goal/cleared", "there was none"),
    ("thread/compacted", "older form of the item"),
    (
        "thread/tokenUsage/updated",
        "the end of the turn has the sums",
    ),
    (
        "account/rateLimits/updated",
        "kept for failures; a limit that is reached is told",
    ),
    ("account/updated", "of the whole process"),
    ("account/login/completed", "of the whole process"),
    ("remoteControl/status/changed", "of the whole process"),
    ("mcpServer/startupStatus/updated", "only failures are news"),
    ("skills/changed", "for lists"),
    ("app/list/updated", "for lists"),
    ("turn/started", "becomes `Started`"),
    (
        "turn/diff/updated",
        "the last one is passed on at the end of the turn",
    ),
    (
        "serverRequest/resolved",
        "of a question that was answered; of others it becomes `Withdraw`",
    ),
    ("error", "of the last attempt: the end of the turn says it"),
    ("item/started/userMessage", "our own words come back"),
    ("item/completed/userMessage", "our own words come back"),
    ("item/started/agentMessage", "it has no text yet"),
    ("item/started/reasoning", "it has no text yet"),
    ("item/started/plan", "it has no text yet"),
    (
        "item/started/webSearch",
        "what is searched for is known at the end",
    ),
    ("item/completed/reasoning", "without any text"),
    ("item/completed/agentMessage", "without any text"),
    ("item/completed/plan", "without any text"),
    ("item/reasoning/summaryPartAdded", "its text follows"),
    ("item/agentMessage/delta", "without any text"),
    (
        "item/commandExecution/outputDelta",
        "the completed item has the whole output",
    ),
    (
        "item/fileChange/outputDelta",
        "the completed item has the whole output",
    ),
    ("item/fileChange/patchUpdated", "kept for the approval"),
];

/// What of a whole process, or about lists of threads, nobody in a turn needs.
pub(super) const IGNORED: &[&str] = &[
    "thread/readState/changed",
    "thread/name/updated",
    "thread/goal/cleared",
    "account/updated",
    "account/login/completed",
    "remoteControl/status/changed",
    "skills/changed",
    "app/list/updated",
    "item/reasoning/summaryPartAdded",
];

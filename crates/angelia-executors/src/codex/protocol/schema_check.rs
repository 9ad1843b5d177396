//! Lists the protocol names that we rely on, for comparison with the schema that a version
//! generates itself (`codex app-server generate-json-schema`, with and without `--experimental`).
//! If a name is missing from the schema, our use of it no longer works as intended.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{outgoing, request_result};

/// Our requests that exist only with `experimentalApi`.
const EXPERIMENTAL_CALLS: &[&str] = &["thread/backgroundTerminals/clean"];

/// Notifications that the translation reads.
pub const NOTIFICATIONS: &[&str] = &[
    "account/rateLimits/updated",
    "configWarning",
    "error",
    "guardianWarning",
    "item/agentMessage/delta",
    "item/commandExecution/outputDelta",
    "item/completed",
    "item/fileChange/outputDelta",
    "item/fileChange/patchUpdated",
    "item/plan/delta",
    "item/reasoning/summaryTextDelta",
    "item/reasoning/textDelta",
    "item/started",
    "mcpServer/startupStatus/updated",
    "model/rerouted",
    "serverRequest/resolved",
    "thread/closed",
    "thread/compacted",
    "thread/settings/updated",
    "thread/started",
    "thread/status/changed",
    "thread/tokenUsage/updated",
    "turn/completed",
    "turn/diff/updated",
    "turn/plan/updated",
    "turn/started",
    "warning",
];

/// Requests from the app-server that get a result, not just an error.
pub const SERVER_REQUESTS: &[&str] = &[
    request_result::COMMAND_APPROVAL,
    request_result::PATCH_APPROVAL,
    request_result::PERMISSIONS_APPROVAL,
    request_result::USER_INPUT,
    request_result::ELICITATION,
    request_result::TOOL_CALL,
];

/// Fields, by the schema definition that contains them.
const FIELDS: &[(&str, &[&str])] = &[
    ("InitializeParams", &["clientInfo", "capabilities"]),
    ("InitializeCapabilities", &["experimentalApi", "optOutNotificationMethods"]),
    (
        "ThreadStartParams",
        &[
            "cwd",
            "model",
            "modelProvider",
            "approvalPolicy",
            "config",
            "baseInstructions",
            "developerInstructions",
            "serviceTier",
            "ephemeral",
        ],
    ),
    (
        "ThreadResumeParams",
        &["threadId", "excludeTurns", "cwd", "model", "approvalPolicy", "config"],
    ),
    ("ThreadForkParams", &["threadId", "excludeTurns", "cwd", "model", "approvalPolicy", "config"]),
    ("ThreadStartResponse", &["thread", "model", "modelProvider"]),
    ("Thread", &["id", "parentThreadId", "model", "modelProvider"]),
    ("ThreadInjectItemsParams", &["threadId", "items"]),
    ("ThreadUnsubscribeParams", &["threadId"]),
    ("ThreadArchiveParams", &["threadId"]),
    ("ThreadDeleteParams", &["threadId"]),
    (
        "TurnStartParams",
        &["threadId", "input", "clientUserMessageId", "model", "effort", "outputSchema"],
    ),
    ("TurnSteerParams", &["threadId", "expectedTurnId", "input", "clientUserMessageId"]),
    ("TurnInterruptParams", &["threadId", "turnId"]),
    ("GetAccountParams", &["refreshToken"]),
    ("GetAccountResponse", &["account", "requiresOpenaiAuth"]),
    ("Turn", &["id", "status", "error", "items", "completedAt"]),
    ("TurnError", &["message", "codexErrorInfo", "additionalDetails"]),
    ("ErrorNotification", &["threadId", "turnId", "error", "willRetry"]),
    ("ItemStartedNotification", &["threadId", "turnId", "item"]),
    ("ItemCompletedNotification", &["threadId", "turnId", "item"]),
    ("AgentMessageDeltaNotification", &["threadId", "turnId", "itemId", "delta"]),
    (
        "ReasoningSummaryTextDeltaNotification",
        &["threadId", "turnId", "itemId", "delta", "summaryIndex"],
    ),
    ("ReasoningTextDeltaNotification", &["threadId", "turnId", "itemId", "delta", "contentIndex"]),
    ("ThreadTokenUsage", &["total", "last", "modelContextWindow"]),
    (
        "TokenUsageBreakdown",
        &[
            "totalTokens",
            "inputTokens",
            "cachedInputTokens",
            "cacheWriteInputTokens",
            "outputTokens",
        ],
    ),
    ("RateLimitSnapshot", &["primary", "secondary", "planType", "rateLimitReachedType"]),
    ("RateLimitWindow", &["usedPercent", "resetsAt"]),
    ("TurnPlanStep", &["step", "status"]),
    ("FileUpdateChange", &["path", "kind", "diff"]),
    ("ConfigWarningNotification", &["summary", "details", "path"]),
    ("ServerRequestResolvedNotification", &["threadId", "requestId"]),
    (
        "CommandExecutionRequestApprovalParams",
        &[
            "threadId",
            "turnId",
            "itemId",
            "kind",
            "reason",
            "command",
            "cwd",
            "networkApprovalContext",
        ],
    ),
    ("FileChangeRequestApprovalParams", &["threadId", "turnId", "itemId", "reason", "grantRoot"]),
    (
        "PermissionsRequestApprovalParams",
        &["threadId", "turnId", "itemId", "cwd", "reason", "permissions"],
    ),
    ("ToolRequestUserInputParams", &["threadId", "turnId", "questions"]),
    ("ToolRequestUserInputQuestion", &["id", "header", "question", "options"]),
    ("McpServerElicitationRequestParams", &["serverName", "threadId", "turnId"]),
    ("DynamicToolCallParams", &["threadId", "turnId", "callId", "tool", "arguments"]),
];

/// Fields that exist only with `experimentalApi`.
const EXPERIMENTAL_FIELDS: &[(&str, &[&str])] = &[
    ("ThreadStartParams", &["permissions", "dynamicTools"]),
    ("ThreadResumeParams", &["permissions"]),
    ("ThreadForkParams", &["permissions"]),
    ("ThreadStartResponse", &["activePermissionProfile"]),
    ("ThreadBackgroundTerminalsCleanParams", &["threadId"]),
    ("CommandExecutionRequestApprovalParams", &["additionalPermissions"]),
];

/// Fields of items, by item type.
const ITEM_FIELDS: &[(&str, &[&str])] = &[
    ("userMessage", &["id", "clientId", "content"]),
    ("agentMessage", &["id", "text", "phase", "delivery"]),
    ("plan", &["id", "text"]),
    ("reasoning", &["id", "summary", "content"]),
    ("commandExecution", &["id", "command", "cwd", "status", "aggregatedOutput", "exitCode"]),
    ("fileChange", &["id", "changes", "status"]),
    ("mcpToolCall", &["id", "server", "tool", "arguments", "status", "result", "error"]),
    ("dynamicToolCall", &["id", "tool", "arguments", "status", "contentItems", "success"]),
    ("collabAgentToolCall", &["id", "tool", "prompt", "receiverThreadIds", "status"]),
    ("subAgentActivity", &["id", "agentThreadId"]),
    ("webSearch", &["id", "query", "action"]),
    ("imageView", &["id", "path"]),
    ("imageGeneration", &["id", "status", "revisedPrompt", "savedPath"]),
    ("sleep", &["id", "durationMs"]),
    ("exitedReviewMode", &["id", "review"]),
    ("contextCompaction", &["id"]),
];

/// String values that we act on, by schema definition.
const ENUM_VALUES: &[(&str, &[&str])] = &[
    ("TurnStatus", &["completed", "interrupted", "failed"]),
    ("CommandExecutionStatus", &["completed", "failed", "declined"]),
    ("PatchApplyStatus", &["completed", "failed", "declined"]),
    ("McpToolCallStatus", &["completed", "failed"]),
    ("PatchChangeKind", &["add", "delete", "update"]),
    ("TurnPlanStepStatus", &["pending", "inProgress", "completed"]),
    ("MessagePhase", &["commentary", "final_answer"]),
    ("AgentMessageDelivery", &["async"]),
    ("AskForApproval", &["untrusted", "on-request", "never"]),
    ("UserInput", &["text", "image"]),
    ("DynamicToolSpec", &["function"]),
    ("Account", &["apiKey", "chatgpt"]),
    (
        "CodexErrorInfo",
        &[
            "contextWindowExceeded",
            "sessionBudgetExceeded",
            "usageLimitExceeded",
            "rateLimitExceeded",
            "flexUnavailable",
            "serverOverloaded",
            "modelNotFound",
            "policyCapacityUnavailable",
            "cyberPolicy",
            "misalignmentPolicyViolation",
            "tooManyDenials",
            "internalServerError",
            "unauthorized",
            "badRequest",
            "sandboxError",
            "httpConnectionFailed",
            "responseStreamConnectionFailed",
            "responseStreamDisconnected",
            "responseTooManyFailedAttempts",
        ],
    ),
];

/// Returns the names that a schema lacks; none for a version that we can drive. `bundle` is the
/// file of all definitions, and `requests` that of the app-server's requests.
pub fn missing_names(bundle: &Value, requests: &Value, experimental: bool) -> Vec<String> {
    let mut missing = Vec::new();
    let mut want = |there: bool, what: String| {
        if !there {
            missing.push(what);
        }
    };
    let calls = methods(&bundle["definitions"]["ClientRequest"]);
    for call in outgoing::METHODS {
        let wanted = experimental || !EXPERIMENTAL_CALLS.contains(call);
        want(!wanted || calls.contains(call), format!("request {call}"));
    }
    let notifications = methods(&bundle["definitions"]["ServerNotification"]);
    for method in NOTIFICATIONS {
        want(notifications.contains(method), format!("notification {method}"));
    }
    let server_requests = methods(requests);
    for method in SERVER_REQUESTS {
        want(server_requests.contains(method), format!("request of the server {method}"));
    }
    let definition = |name: &str| {
        let of = |schema: &Value| schema["definitions"].get(name).cloned();
        of(bundle).or_else(|| of(requests)).unwrap_or_default()
    };
    let more = EXPERIMENTAL_FIELDS.iter().filter(|_| experimental);
    for (name, fields) in FIELDS.iter().chain(more) {
        let found = definition(name);
        for field in *fields {
            let there = found["properties"].get(field).is_some();
            want(there, format!("{name}.{field}"));
        }
    }
    let items = definition("ThreadItem");
    for (kind, fields) in ITEM_FIELDS {
        let all = items["oneOf"].as_array().into_iter().flatten();
        let found = all.clone().find(|one| one["properties"]["type"]["enum"][0] == *kind);
        for field in *fields {
            let there = found.is_some_and(|one| one["properties"].get(field).is_some());
            want(there, format!("item {kind}.{field}"));
        }
    }
    for (name, words) in ENUM_VALUES {
        let mut there = BTreeSet::new();
        collect_values(&definition(name), &mut there);
        for word in *words {
            want(there.contains(*word), format!("{name} \"{word}\""));
        }
    }
    missing
}

fn methods(schema: &Value) -> BTreeSet<&str> {
    let all = schema["oneOf"].as_array().into_iter().flatten();
    all.filter_map(|one| one["properties"]["method"]["enum"][0].as_str()).collect()
}

/// Collects every enum value and every property name of a definition.
fn collect_values(schema: &Value, into: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            for (key, value) in map {
                match (key.as_str(), value) {
                    ("enum", Value::Array(values)) => {
                        into.extend(values.iter().filter_map(Value::as_str).map(str::to_owned));
                    }
                    ("properties", Value::Object(fields)) => {
                        into.extend(fields.keys().cloned());
                        collect_values(value, into);
                    }
                    _ => collect_values(value, into),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_values(item, into)),
        _ => {}
    }
}

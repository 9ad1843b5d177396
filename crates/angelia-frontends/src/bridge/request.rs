//! Decodes one line from a host into a request. An error about a line names its `request_id` if one
//! can be found, even in a broken line, so that the host knows which request failed.

use std::{borrow::Cow, collections::BTreeMap, fmt, path::PathBuf, sync::Arc};

use angelia_core::model::{ApprovalId, Verdict};
use angelia_wire::near_json::{self, JsonDefect};
use schemars::JsonSchema;
use serde::{
    Serialize,
    de::{DeserializeOwned, Deserializer as _, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;
use serde_with::{As, DisplayFromStr};

/// The limit on a `session_id`, which is stored with the session.
const MAX_SESSION_ID_BYTES: usize = 512;

/// A request of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(rename = "Request")]
pub enum BridgeRequest {
    /// Run one turn of a session.
    Run(RunRequest),
    /// Answered by `pong`, at any time.
    Ping(RequestWithoutFields),
    /// Stop the run of a session.
    Interrupt(InterruptRequest),
    /// Answer an approval or a question.
    Approve(ApproveRequest),
    /// End the bridge; runs are interrupted first.
    Shutdown(RequestWithoutFields),
    /// The same as `shutdown`.
    Exit(RequestWithoutFields),
    /// The same as `shutdown`.
    Quit(RequestWithoutFields),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunRequest {
    /// The host's name for this request; every event of the run carries it.
    pub request_id: Arc<str>,
    /// The host's name for the conversation; a new name starts a new session.
    #[schemars(length(min = 1, max = 512))]
    pub session_id: Arc<str>,
    /// The prompt.
    pub message: Arc<str>,
    /// The profile of a new session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Arc<str>>,
    /// The directory of a new session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// The model of a new session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Arc<str>>,
    /// Whether text is also sent as deltas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assistant_delta: Option<bool>,
    /// Whether the agent's own stream is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub native_stream: Option<bool>,
    /// Whether the deltas are the agent's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub native_assistant_delta: Option<bool>,
    /// Of all requests with the same key, one is run; the others get its events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<Arc<str>>,
    /// The names of fields that the bridge does not know.
    #[serde(skip)]
    #[schemars(skip)]
    pub unknown: Vec<Box<str>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Plain")]
pub struct RequestWithoutFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InterruptRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Arc<str>>,
    pub session_id: Arc<str>,
    /// The reason; repeated in `interrupt_ack` and `final`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ApproveRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Arc<str>>,
    #[serde(serialize_with = "As::<DisplayFromStr>::serialize")]
    #[schemars(with = "String")]
    pub approval_id: ApprovalId,
    /// `once`, `session`, `always`, `deny` or `stop`.
    #[serde(serialize_with = "verdict_word")]
    #[schemars(with = "VerdictWord")]
    pub verdict: Verdict,
    /// A reason for the agent, passed on with a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<Arc<str>>,
    /// For `session` and `always`: one of the `rules` of the approval. Without it, the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Arc<str>>,
    /// The answers to an agent's questions, by the text of each question.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(default)]
    pub answers: BTreeMap<Arc<str>, Arc<str>>,
}

/// A decision on an approval.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
enum VerdictWord {
    Once,
    Session,
    Always,
    Deny,
    Stop,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "how a serializer hands it over")]
fn verdict_word<S: serde::Serializer>(value: &Verdict, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(value.as_str())
}

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Code")]
pub enum BridgeErrorCode {
    /// The line is not one JSON object.
    BadJson,
    InvalidUtf8,
    /// The line is longer than the limit for a request.
    TooLong,
    /// Input ended in the middle of a line.
    IncompleteLine,
    UnknownType,
    MissingField,
    BadField,
    /// The session has a run already.
    SessionBusy,
    /// Another process holds the session.
    SessionHeld,
    /// The session was created with other settings, and keeps them.
    SessionDiffers,
    /// There is no run to interrupt.
    NotRunning,
    /// No run of this bridge waits for that approval.
    UnknownApproval,
    /// The idempotency key was used for something else.
    KeyReused,
    /// The limit on concurrent runs is reached.
    TooManyRuns,
    /// With `--once`: the one request has been taken.
    OnlyOnce,
    ShuttingDown,
    /// The request cannot be served: an unknown profile, a directory that does not exist …
    Invalid,
    NotLoggedIn,
    RateLimited,
    Unavailable,
    Internal,
}

/// Why a line is not a valid request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BadRequest {
    pub code: BridgeErrorCode,
    pub message: String,
    pub request_id: Option<Arc<str>>,
    pub session_id: Option<Arc<str>>,
}

/// Decodes one line. A lone surrogate in it becomes U+FFFD.
pub fn decode(line: &[u8]) -> Result<BridgeRequest, BadRequest> {
    if let Err(error) = std::str::from_utf8(line) {
        let message = format!("the line is not UTF-8 from byte {} on", error.valid_up_to());
        return Err(unreadable_line(line, BridgeErrorCode::InvalidUtf8, message));
    }
    let repaired = near_json::repair(line);
    let text = std::str::from_utf8(&repaired).unwrap_or_default();
    let mut fields = RawFields::default();
    let read = read_fields(text, &mut fields);
    let result = match read {
        Ok(()) => parse_request(&fields),
        Err(error) => Err(RequestError {
            code: BridgeErrorCode::BadJson,
            message: match near_json::find_defect(text.as_bytes()) {
                Some(JsonDefect { path, what }) if !path.is_empty() => format!("`{path}`: {what}"),
                Some(JsonDefect { what, .. }) => {
                    format!("the line is not one JSON object: {what}")
                }
                None => format!("the line is not one JSON object: {error}"),
            },
        }),
    };
    result.map_err(|wrong| fields.bad_request(wrong))
}

/// Returns an error about an unreadable line, with the ids that can still be found in it.
pub(super) fn unreadable_line(
    line: &[u8],
    code: BridgeErrorCode,
    message: impl Into<String>,
) -> BadRequest {
    let text = String::from_utf8_lossy(line);
    let mut fields = RawFields::default();
    // Keep the fields before the broken part.
    let _broken = read_fields(&text, &mut fields);
    let message = message.into();
    fields.bad_request(RequestError { code, message })
}

#[derive(Debug)]
struct RequestError {
    code: BridgeErrorCode,
    message: String,
}

/// The fields of a line as raw JSON.
#[derive(Debug, Default)]
struct RawFields<'a> {
    known: BTreeMap<&'static str, &'a RawValue>,
    unknown: Vec<Box<str>>,
}

const KNOWN_FIELDS: [&str; 16] = [
    "type",
    "request_id",
    "session_id",
    "message",
    "profile",
    "cwd",
    "model",
    "assistant_delta",
    "native_stream",
    "native_assistant_delta",
    "idempotency_key",
    "approval_id",
    "verdict",
    "note",
    "rule",
    "answers",
];

/// Reads the fields of an object. After an error, `fields` holds those before it.
fn read_fields<'a>(text: &'a str, fields: &mut RawFields<'a>) -> Result<(), serde_json::Error> {
    struct FieldsVisitor<'r, 'a>(&'r mut RawFields<'a>);

    impl<'a> Visitor<'a> for FieldsVisitor<'_, 'a> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
            while let Some(name) = map.next_key::<Cow<'a, str>>()? {
                if let Some(known) = KNOWN_FIELDS.into_iter().find(|known| *known == name) {
                    self.0.known.insert(known, map.next_value()?);
                } else {
                    map.next_value::<IgnoredAny>()?;
                    self.0.unknown.push(name.as_ref().into());
                }
            }
            Ok(())
        }
    }

    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.deserialize_map(FieldsVisitor(fields))?;
    deserializer.end()
}

impl RawFields<'_> {
    fn bad_request(&self, wrong: RequestError) -> BadRequest {
        BadRequest {
            code: wrong.code,
            message: wrong.message,
            request_id: self.id_text("request_id"),
            session_id: self.id_text("session_id"),
        }
    }

    /// Returns an id as text, even if it was given as a number.
    fn id_text(&self, name: &str) -> Option<Arc<str>> {
        let raw = self.known.get(name)?.get();
        match serde_json::from_str::<String>(raw) {
            Ok(text) => Some(text.into()),
            Err(_) if raw.parse::<f64>().is_ok() => Some(raw.into()),
            Err(_) => None,
        }
    }

    /// Returns the value of a field. `null` counts as absent.
    fn optional<T: DeserializeOwned>(
        &self,
        name: &'static str,
        is: &str,
    ) -> Result<Option<T>, RequestError> {
        let Some(raw) = self.known.get(name) else {
            return Ok(None);
        };
        serde_json::from_str(raw.get()).map_err(|_| RequestError::bad_field(name, is))
    }

    fn text(&self, name: &'static str) -> Result<Option<Arc<str>>, RequestError> {
        self.optional(name, "a string")
    }

    fn flag(&self, name: &'static str) -> Result<Option<bool>, RequestError> {
        self.optional(name, "true or false")
    }

    fn required(&self, name: &'static str) -> Result<Arc<str>, RequestError> {
        self.text(name)?.ok_or_else(|| RequestError {
            code: BridgeErrorCode::MissingField,
            message: format!("`{name}` is missing"),
        })
    }

    /// Returns the `session_id` if its length is valid.
    fn session_id(&self) -> Result<Arc<str>, RequestError> {
        let name = self.required("session_id")?;
        if name.is_empty() || name.len() > MAX_SESSION_ID_BYTES {
            let is = format!("a string of 1 to {MAX_SESSION_ID_BYTES} bytes");
            return Err(RequestError::bad_field("session_id", &is));
        }
        Ok(name)
    }
}

impl RequestError {
    fn bad_field(name: &str, is: &str) -> Self {
        Self { code: BridgeErrorCode::BadField, message: format!("`{name}` must be {is}") }
    }
}

fn parse_request(fields: &RawFields<'_>) -> Result<BridgeRequest, RequestError> {
    let name = fields.required("type")?;
    let plain = || -> Result<RequestWithoutFields, RequestError> {
        let request_id = fields.text("request_id")?;
        Ok(RequestWithoutFields { request_id })
    };
    Ok(match &*name {
        "run" => BridgeRequest::Run(parse_run(fields)?),
        "ping" => BridgeRequest::Ping(plain()?),
        "interrupt" => BridgeRequest::Interrupt(InterruptRequest {
            request_id: fields.text("request_id")?,
            session_id: fields.session_id()?,
            message: fields.text("message")?,
        }),
        "approve" => BridgeRequest::Approve(parse_approve(fields)?),
        "shutdown" => BridgeRequest::Shutdown(plain()?),
        "exit" => BridgeRequest::Exit(plain()?),
        "quit" => BridgeRequest::Quit(plain()?),
        _ => {
            return Err(RequestError {
                code: BridgeErrorCode::UnknownType,
                message: "this `type` is unknown; use run, ping, interrupt, approve or shutdown"
                    .to_owned(),
            });
        }
    })
}

fn parse_run(fields: &RawFields<'_>) -> Result<RunRequest, RequestError> {
    let message = fields.required("message")?;
    if message.trim().is_empty() {
        return Err(RequestError::bad_field("message", "a string with some text"));
    }
    let cwd: Option<PathBuf> = fields.optional("cwd", "a string")?;
    if cwd.as_ref().is_some_and(|cwd| cwd.as_os_str().is_empty()) {
        return Err(RequestError::bad_field("cwd", "the path of a directory"));
    }
    let idempotency_key = fields.text("idempotency_key")?;
    if idempotency_key.as_deref().is_some_and(str::is_empty) {
        return Err(RequestError::bad_field("idempotency_key", "a string with some text"));
    }
    Ok(RunRequest {
        request_id: fields.required("request_id")?,
        session_id: fields.session_id()?,
        message,
        profile: fields.text("profile")?,
        cwd,
        model: fields.text("model")?,
        assistant_delta: fields.flag("assistant_delta")?,
        native_stream: fields.flag("native_stream")?,
        native_assistant_delta: fields.flag("native_assistant_delta")?,
        idempotency_key,
        unknown: fields.unknown.clone(),
    })
}

fn parse_approve(fields: &RawFields<'_>) -> Result<ApproveRequest, RequestError> {
    let id = fields.required("approval_id")?;
    let verdict = fields.required("verdict")?;
    let words = Verdict::ALL.map(Verdict::as_str).join(", ");
    Ok(ApproveRequest {
        request_id: fields.text("request_id")?,
        approval_id: id.parse().map_err(|_| {
            RequestError::bad_field("approval_id", "the id of an `approval_requested`")
        })?,
        verdict: Verdict::parse(&verdict)
            .ok_or_else(|| RequestError::bad_field("verdict", &format!("one of {words}")))?,
        note: fields.text("note")?,
        rule: fields.text("rule")?,
        answers: fields
            .optional("answers", "an object from questions to answers")?
            .unwrap_or_default(),
    })
}

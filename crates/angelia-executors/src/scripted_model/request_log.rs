//! The log of requests that the server has received.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Instant,
};

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;

const MAX_RECORDED_REQUESTS: usize = 1000;

pub type SharedRequest = Arc<RecordedRequest>;

/// One request, as received.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    pub method: String,
    /// Without the query.
    pub path: String,
    pub query: Option<String>,
    /// Names in lower case, in the order sent.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    pub at: Instant,
}

impl RecordedRequest {
    /// Returns the first header with this lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns the body as JSON, or `Null` if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns the requested model; empty if the request names none.
    pub fn model(&self) -> String {
        super::prompt::RequestHead::of(&self.body).model
    }

    /// Returns the user's last prompt, without the client's reminders.
    pub fn prompt(&self) -> String {
        super::prompt::ParsedPrompt::from_request(self).text
    }

    /// Returns the names of the tools that the request offers, in any dialect.
    pub fn offered_tools(&self) -> Vec<String> {
        fn collect(value: &Value, names: &mut Vec<String>) {
            match value {
                Value::Array(items) => items.iter().for_each(|item| collect(item, names)),
                Value::Object(fields) => {
                    names.extend(fields.get("name").and_then(Value::as_str).map(str::to_owned));
                    // Two dialects put several tools into one entry, and one wraps each tool.
                    for list in ["functionDeclarations", "tools", "function"] {
                        fields.get(list).into_iter().for_each(|list| collect(list, names));
                    }
                }
                _ => {}
            }
        }
        let mut names = Vec::new();
        collect(&self.json()["tools"], &mut names);
        names
    }

    /// Reports whether the request asks the model for an answer.
    pub fn is_model_request(&self) -> bool {
        self.method == "POST"
            && ["/messages", "/chat/completions", "/responses", "enerateContent"]
                .iter()
                .any(|end| self.path.ends_with(end))
    }
}

/// The newest requests, and a counter that tests can wait on.
#[derive(Debug)]
pub(super) struct RequestLog {
    requests: Mutex<VecDeque<SharedRequest>>,
    model_requests: watch::Sender<usize>,
    abandoned: AtomicUsize,
    recording: AtomicBool,
}

impl Default for RequestLog {
    fn default() -> Self {
        Self {
            requests: Mutex::default(),
            model_requests: watch::Sender::new(0),
            abandoned: AtomicUsize::new(0),
            recording: AtomicBool::new(true),
        }
    }
}

impl RequestLog {
    pub(super) fn record(&self, request: &SharedRequest) {
        if self.recording.load(Ordering::Relaxed) {
            let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
            if requests.len() == MAX_RECORDED_REQUESTS {
                requests.pop_front();
            }
            requests.push_back(request.clone());
        }
        if request.is_model_request() {
            self.model_requests.send_modify(|count| *count += 1);
        }
    }

    pub(super) fn all(&self) -> Vec<SharedRequest> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    pub(super) fn model_requests(&self) -> Vec<SharedRequest> {
        self.all().into_iter().filter(|request| request.is_model_request()).collect()
    }

    pub(super) async fn wait_for_model_requests(&self, count: usize) {
        let mut seen = self.model_requests.subscribe();
        // The sender lives in `self`, so waiting cannot fail.
        let _ = seen.wait_for(|seen| *seen >= count).await;
    }

    pub(super) fn count_abandoned(&self) {
        self.abandoned.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn abandoned_count(&self) -> usize {
        self.abandoned.load(Ordering::Relaxed)
    }

    pub(super) fn set_recording(&self, on: bool) {
        self.recording.store(on, Ordering::Relaxed);
    }
}

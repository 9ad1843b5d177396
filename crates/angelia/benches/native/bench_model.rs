//! The model of this benchmark: it answers from a script and notes when it was asked.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use angelia_testkit::model_server::{ModelServer, RecordedRequest, Reply, ReplyBlock};
use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// One request to the model.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) asked: Instant,
    /// The answer goes out in one write right after this.
    pub(crate) answered: Instant,
    /// Only of the first request: later ones contain it.
    pub(crate) body: Value,
    /// Whether a result of a tool was told to the model as an error.
    pub(crate) text: String,
}

#[derive(Debug, Default)]
struct ModelState {
    script: VecDeque<Reply>,
    exchanges: Vec<Exchange>,
    /// Keeps every request as text; off where there are many long ones.
    keeps_text: bool,
}

#[derive(Debug)]
pub(crate) struct BenchModel {
    pub(crate) server: ModelServer,
    state: Arc<Mutex<ModelState>>,
}

impl BenchModel {
    pub(crate) fn start() -> Result<Self> {
        let server = ModelServer::start().context("no scripted model")?;
        server.set_recording(false);
        let state: Arc<Mutex<ModelState>> = Arc::default();
        let shared = Arc::clone(&state);
        server.respond_with(move |request| Some(answer(&shared, request)));
        Ok(Self { server, state })
    }

    /// Sets the answers to the next requests that offer tools. When they are used up, the model says
    /// that it is done.
    pub(crate) fn prepare(&self, replies: impl IntoIterator<Item = Reply>, keeps_text: bool) {
        let script = replies.into_iter().collect();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = ModelState { script, exchanges: Vec::new(), keeps_text };
    }

    /// Returns the requests since then that offered tools.
    pub(crate) fn exchanges(&self) -> Vec<Exchange> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).exchanges.clone()
    }

    /// Waits until that many requests have arrived.
    pub(crate) fn wait_for(&self, count: usize) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.exchanges().len() < count {
            if Instant::now() > deadline {
                bail!("the model was not asked {count} times");
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }
}

/// What the model says at the end.
pub(crate) const LAST_WORDS: &str = "RECOVERED";

fn answer(state: &Mutex<ModelState>, request: &RecordedRequest) -> Reply {
    // Some programs ask for a title of the session, without tools.
    if request.offered_tools().is_empty() {
        return Reply::text("a title");
    }
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    let reply = state.script.pop_front().unwrap_or_else(|| Reply::text(LAST_WORDS));
    let is_first = state.exchanges.is_empty();
    let body = if is_first { request.json() } else { Value::Null };
    let text = if state.keeps_text {
        String::from_utf8_lossy(&request.body).into_owned()
    } else {
        String::new()
    };
    state.exchanges.push(Exchange { asked: request.at, answered: Instant::now(), body, text });
    reply
}

/// Returns the time of each step: from the end of an answer to the next request.
pub(crate) fn step_times(exchanges: &[Exchange]) -> Vec<Duration> {
    exchanges.windows(2).map(|pair| pair[1].asked.duration_since(pair[0].answered)).collect()
}

pub(crate) fn call(name: &str, input: Value) -> Reply {
    Reply::message(vec![ReplyBlock::Tool { name: name.to_owned(), input }])
}

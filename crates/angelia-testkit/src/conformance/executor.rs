//! What every executor must do, whatever agent it drives.
//! [`executor_conformance!`](crate::executor_conformance) makes one test of each check; the checks
//! are grouped by what they are about, and speak to the agent only in the fixture's intents.
//!
//! - `session`: an open agent, and turns run on it by hand; `heard`: what came out of one.
//! - `stream`: what holds for the events of every turn, and is checked after every one.
//! - `processes`: who carries the agents' mark.
//! - `turns`, `viewers`, `conversations`, `approvals`, `interrupts`, `failures`, `abilities`,
//!   `endings`: the checks.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a check fails by panicking")]

mod abilities;
mod approvals;
mod conversations;
mod endings;
mod failures;
mod heard;
mod interrupts;
mod processes;
mod session;
mod stream;
mod turns;
mod viewers;

use std::{path::PathBuf, sync::Arc, time::Duration};

use angelia_core::{
    model::{NativeSessionId, SessionSpec},
    ports::Executor,
};
use serde_json::Value;

pub use self::{
    abilities::*, approvals::*, conversations::*, endings::*, failures::*, interrupts::*, turns::*,
    viewers::*,
};

/// One executor in a place of its own. It says in its agent's words what the checks intend, and
/// shows what reached the model, where somebody can know that.
///
/// An intent that depends on a capability may be `None` where the capability is missing.
pub trait ExecutorFixture: Sync {
    fn executor(&self) -> &Arc<dyn Executor>;

    /// A plain specification: agent mode, logged in, every tool asks.
    fn spec(&self) -> SessionSpec;

    /// How the marks of this executor's processes begin: `<home id>:<owner id>:`.
    fn mark(&self) -> String;

    /// Several agents may live in one process, which then lasts until the executor is closed.
    fn shares_processes(&self) -> bool {
        false
    }

    /// Programs that an agent is made of besides the one that is started, by a part of their command
    /// lines.
    fn parts(&self) -> &'static [&'static str] {
        &[]
    }

    /// Answers with this text in it.
    fn say(&self, text: &str) -> String;

    /// Answers so many words, one by one, with a pause between them.
    fn words(&self, count: usize, pause: Duration) -> String;

    /// Wants to run this shell command, asks first, and then answers.
    fn ask(&self, command: &str) -> String;

    /// Runs a tool that does not end by itself while a check lasts.
    fn long_tool(&self) -> LongTool;

    /// The same with a process that has left the agent's group and session.
    fn escaped_tool(&self) -> LongTool {
        self.long_tool()
    }

    /// Says nothing, ever.
    fn hang(&self) -> String;

    /// Fails because nobody is logged in.
    fn fail_auth(&self) -> (SessionSpec, String);

    /// The agent ends itself in the middle of the turn; it may ask before it does.
    fn die(&self) -> Option<String>;

    /// Calls a tool of the caller's without arguments, and then answers.
    fn call(&self, tool: &str) -> Option<String>;

    /// Answers this value where a schema is set.
    fn structured(&self, value: &Value) -> Option<String>;

    /// The whole of the last request the model got.
    fn told(&self) -> Option<Value>;

    /// Is there a record of the agent's own of this conversation? `None`: it keeps none.
    fn has_record(&self, native: &NativeSessionId) -> Option<bool>;

    /// Do allowed commands really run?
    fn acts(&self) -> bool;

    /// Did this text, said in the last turn, reach the agent byte for byte?
    fn arrived(&self, text: &str, _answer: &str) -> bool {
        self.told().is_some_and(|told| says(&told, text))
    }
}

/// A tool that runs until it is stopped.
#[derive(Clone, Debug)]
pub struct LongTool {
    pub prompt: String,
    /// Exists as soon as it runs; `None`: it runs as soon as it is called.
    pub running: Option<PathBuf>,
}

/// Is the text part of any string in there?
pub fn says(value: &Value, text: &str) -> bool {
    match value {
        Value::String(string) => string.contains(text),
        Value::Array(items) => items.iter().any(|item| says(item, text)),
        Value::Object(fields) => fields.values().any(|field| says(field, text)),
        _ => false,
    }
}

/// One `#[tokio::test]` per check; the argument makes a fresh [`ExecutorFixture`]. After every
/// check the executor is closed, and nothing it started may be left.
#[macro_export]
macro_rules! executor_conformance {
    ($fixture:expr) => {
        $crate::executor_conformance! { $fixture =>
            it_is_installed_and_says_which_version,
            a_turn_starts_speaks_and_ends_and_so_does_the_next,
            two_agents_do_not_mix,
            text_arrives_byte_for_byte_and_whole,
            no_viewer_holds_an_agent_up,
            a_conversation_is_resumed_by_the_next_process,
            a_copy_goes_its_own_way,
            a_forgotten_conversation_is_gone,
            every_verdict_does_what_it_says,
            an_interrupt_while_it_speaks,
            an_interrupt_while_it_is_silent,
            an_interrupt_while_it_asks,
            an_interrupt_while_a_tool_runs,
            an_interrupt_before_and_at_the_beginning,
            an_agent_that_does_not_react_is_given_up,
            not_logged_in_is_a_failure_with_a_hint,
            a_killed_agent_is_a_failed_turn_and_the_conversation_survives,
            an_agent_that_ends_itself_is_a_failed_turn,
            images_and_an_added_prompt_reach_the_model,
            model_mode_has_the_callers_prompt_and_tools_and_nothing_else,
            a_schema_is_kept,
            a_carried_history_reaches_the_model,
            words_reach_a_running_turn,
            closing_or_dropping_leaves_no_process,
            closing_in_the_middle_of_a_turn_leaves_no_process,
        }
    };
    ($fixture:expr => $($check:ident),* $(,)?) => {
        $(
            #[tokio::test]
            async fn $check() {
                let fixture = $fixture;
                $crate::conformance::executor::$check(&fixture).await;
                $crate::conformance::executor::nothing_is_left(&fixture).await;
            }
        )*
    };
}

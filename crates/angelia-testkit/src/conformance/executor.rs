//! The checks that every executor must pass, whichever agent it drives.
//! [`executor_conformance!`](crate::executor_conformance) turns each check into a test; the modules
//! group them by subject. A check instructs the agent only through the fixture's prompts.
//!
//! - `session`: an open agent and the turns run on it; `turn_trace`: the recorded events of a turn.
//! - `processes`: the processes that carry the agents' mark.
//! - `selftest`: the checks of `angelia selftest`, which are the first part of the suite.
//! - `turns`, `viewers`, `conversations`, `approvals`, `interrupts`, `failures`, `capabilities`,
//!   `endings`: the checks.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a check fails by panicking")]

mod approvals;
mod capabilities;
mod conversations;
mod endings;
mod failures;
mod interrupts;
mod processes;
mod selftest;
mod session;
mod turns;
mod viewers;

use std::{path::PathBuf, sync::Arc, time::Duration};

use angelia_core::{
    model::{NativeSessionId, SessionSpec},
    ports::Executor,
};
use angelia_executors::selftest::CheckedAgent;
pub use angelia_executors::selftest::checks::json_contains_text;
use serde_json::Value;

pub use self::{
    approvals::*, capabilities::*, conversations::*, endings::*, failures::*, interrupts::*,
    selftest::*, turns::*, viewers::*,
};

/// An executor in an isolated home: its agent, and the additional prompts that the harder checks
/// need. It also shows the requests that reached the model, if they can be observed.
///
/// A prompt that depends on a capability may be `None` if the capability is missing.
pub trait ExecutorFixture: Sync {
    /// Returns the agent driven by the self-test's checks.
    fn agent(&self) -> &dyn CheckedAgent;

    fn executor(&self) -> &Arc<dyn Executor> {
        self.agent().executor()
    }

    fn spec(&self) -> SessionSpec {
        self.agent().spec()
    }

    fn say_prompt(&self, text: &str) -> String {
        self.agent().say_prompt(text)
    }

    fn words_prompt(&self, count: usize, pause: Duration) -> String {
        self.agent().words_prompt(count, pause)
    }

    fn approval_prompt(&self, command: &str) -> String {
        self.agent().approval_prompt(command)
    }

    fn last_model_request(&self) -> Option<Value> {
        self.agent().last_model_request()
    }

    fn executes_commands(&self) -> bool {
        self.agent().executes_commands()
    }

    /// Returns the prefix of the marks of this executor's processes: `<home id>:<owner id>:`.
    fn mark(&self) -> String;

    /// Returns whether several agents share one process, which then runs until the executor is
    /// closed.
    fn shares_processes(&self) -> bool {
        false
    }

    /// Returns whether an agent is a process. If not, only its commands are.
    fn has_process(&self) -> bool {
        true
    }

    /// Returns a substring of the command line of each helper program that belongs to an agent,
    /// besides the one that is started.
    fn helper_programs(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns a tool that does not end on its own during a check.
    fn long_tool(&self) -> LongTool;

    /// Returns a tool like [`Self::long_tool`], with a process that has left the agent's process
    /// group and session.
    fn escaped_tool(&self) -> LongTool {
        self.long_tool()
    }

    /// Returns a prompt that the agent never answers.
    fn hang_prompt(&self) -> String;

    /// Returns a specification and a prompt that fail because the agent is not logged in.
    fn auth_failure(&self) -> (SessionSpec, String);

    /// Returns a prompt that makes the agent exit in the middle of the turn, possibly after asking
    /// for an approval.
    fn exit_prompt(&self) -> Option<String>;

    /// Returns a prompt that makes the agent answer with this value if an output schema is set.
    fn structured_prompt(&self, value: &Value) -> Option<String>;

    /// Returns whether the agent itself has a record of this conversation, or `None` if the agent
    /// keeps no records.
    fn has_record(&self, native: &NativeSessionId) -> Option<bool>;

    /// Returns whether this text of the last turn reached the agent byte for byte.
    fn reached_agent(&self, text: &str, _answer: &str) -> bool {
        self.last_model_request().is_some_and(|told| json_contains_text(&told, text))
    }
}

/// A tool call that runs until it is stopped.
#[derive(Clone, Debug)]
pub struct LongTool {
    pub prompt: String,
    /// A file that exists as soon as the tool runs; `None` if the tool runs as soon as it is
    /// called.
    pub running: Option<PathBuf>,
}

/// Expands to one `#[tokio::test]` per check; the argument creates a fresh [`ExecutorFixture`].
/// After every check, the executor is closed, and no process that it started may be left.
#[macro_export]
macro_rules! executor_conformance {
    ($fixture:expr) => {
        $crate::executor_conformance! { $fixture =>
            selftest_streamed_answer,
            selftest_approval,
            selftest_edit_diff,
            selftest_interrupt,
            selftest_resume,
            selftest_model_error,
            selftest_usage,
            selftest_caller_tools,
            selftest_sealed_model_mode,
            it_is_installed_and_says_which_version,
            a_turn_starts_speaks_and_ends_and_so_does_the_next,
            two_agents_do_not_mix,
            text_arrives_byte_for_byte_and_whole,
            no_viewer_holds_an_agent_up,
            a_conversation_is_resumed_by_the_next_process,
            a_copy_goes_its_own_way,
            a_forgotten_conversation_is_gone,
            every_verdict_does_what_it_says,
            an_interrupt_while_it_is_silent,
            an_interrupt_while_it_asks,
            an_interrupt_while_a_tool_runs,
            an_interrupt_before_and_at_the_beginning,
            an_agent_that_does_not_react_is_given_up,
            not_logged_in_is_a_failure_with_a_hint,
            a_killed_agent_is_a_failed_turn_and_the_conversation_survives,
            an_agent_that_ends_itself_is_a_failed_turn,
            images_and_an_added_prompt_reach_the_model,
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

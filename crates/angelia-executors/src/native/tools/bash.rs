//! `bash`: runs a command to completion, or as a job in the background.

use std::{
    fmt::Write as _,
    os::unix::process::ExitStatusExt as _,
    process::ExitStatus,
    sync::Arc,
    time::{Duration, Instant},
};

use angelia_core::{model::CommandAccess, ports::BoxFuture};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::sleep;

use super::{
    jobs::Jobs,
    output_capture::OutputCapture,
    output_folder::OutputFolder,
    shell::{AT_ONCE, Shell},
    tool::{CallError, CallIo, CallOutput, CallPlan, PreparedCall, Tool, parse_arguments},
};
use crate::{
    process::{StopTimeouts, Termination, merged_output::drain_until, terminate},
    truncation::first_line,
};

/// The time limit of a command in seconds: the default and the maximum.
const DEFAULT_TIMEOUT: u64 = 120;
const MAX_TIMEOUT: u64 = 600;

/// The same for a command in the background.
const DEFAULT_JOB_TIMEOUT: u64 = 7200;
const MAX_JOB_TIMEOUT: u64 = 24 * 3600;

/// The time that a command has to exit on its own after it has reached its limit.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct BashTool {
    shell: Arc<Shell>,
    output: Arc<OutputFolder>,
    jobs: Arc<Jobs>,
}

impl BashTool {
    pub fn new(shell: Arc<Shell>, output: Arc<OutputFolder>, jobs: Arc<Jobs>) -> Self {
        Self { shell, output, jobs }
    }
}

#[derive(Debug, Deserialize)]
struct BashArguments {
    command: String,
    timeout: Option<u64>,
    #[serde(default)]
    background: bool,
    description: Option<String>,
}

#[derive(Debug)]
struct BashCall {
    shell: Arc<Shell>,
    output: Arc<OutputFolder>,
    jobs: Arc<Jobs>,
    command: String,
    timeout: Duration,
    background: bool,
    plan: CallPlan,
}

impl Tool for BashTool {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn description(&self) -> &'static str {
        "Run a shell command in the working directory. Each call is a new shell without input, and \
         what it leaves running is ended. For servers and long builds use `background`, then `job`."
    }

    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"command":{"type":"string"},"timeout":{"type":"integer","description":"seconds, 120 by default, at most 600"},"background":{"type":"boolean"},"description":{"type":"string","description":"what it does, in a few words"}},"required":["command"]}"#
    }

    fn prepare(&self, arguments: &RawValue) -> Result<Box<dyn PreparedCall>, CallError> {
        let wanted: BashArguments = parse_arguments(arguments)?;
        if wanted.command.trim().is_empty() {
            return Err(CallError::new("the command is empty"));
        }
        let (default, most) = if wanted.background {
            (DEFAULT_JOB_TIMEOUT, MAX_JOB_TIMEOUT)
        } else {
            (DEFAULT_TIMEOUT, MAX_TIMEOUT)
        };
        let timeout = Duration::from_secs(wanted.timeout.unwrap_or(default).clamp(1, most));
        let title = wanted.description.as_deref().unwrap_or(&wanted.command);
        let title = first_line(title).unwrap_or_default().into_owned();
        let access = CommandAccess::shell(&*wanted.command);
        let mut plan = CallPlan::executes(title, Some(access));
        plan.must_ask.clone_from(&self.shell.sandbox.must_ask);
        Ok(Box::new(BashCall {
            shell: Arc::clone(&self.shell),
            output: Arc::clone(&self.output),
            jobs: Arc::clone(&self.jobs),
            command: wanted.command,
            timeout,
            background: wanted.background,
            plan,
        }))
    }
}

impl PreparedCall for BashCall {
    fn plan(&self) -> &CallPlan {
        &self.plan
    }

    fn run(self: Box<Self>, io: CallIo) -> BoxFuture<'static, CallOutput> {
        Box::pin(async move {
            let done = if self.background {
                self.jobs.start(&self.shell, &self.command, self.timeout).await
            } else {
                // Even if this future is dropped, the command is ended.
                let cancel = io.cancel.child_token();
                let _guard = cancel.clone().drop_guard();
                let jobs = Arc::clone(&self.jobs);
                jobs.run_command(async move { self.run_to_end(&CallIo { cancel }).await }).await
            };
            done.into()
        })
    }
}

/// Why a command was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandStop {
    Cancelled,
    TimedOut,
}

impl CommandStop {
    /// Returns the timeouts for stopping the command.
    pub(super) fn timeouts(this: Option<Self>) -> StopTimeouts {
        match this {
            Some(Self::Cancelled) => AT_ONCE,
            Some(Self::TimedOut) => {
                StopTimeouts { after_eof: Duration::ZERO, ..StopTimeouts::with_grace(GRACE) }
            }
            None => StopTimeouts::default(),
        }
    }
}

impl BashCall {
    async fn run_to_end(&self, io: &CallIo) -> Result<CallOutput, CallError> {
        let began = Instant::now();
        let mut running = self.shell.start(&self.command).await?;
        drop(running.child.stdin.take());
        let helper_words = running.child.stderr();
        let mut capture = OutputCapture::new(Arc::clone(&self.output), "bash");
        let stop = async {
            tokio::select! {
                () = io.cancel.cancelled() => CommandStop::Cancelled,
                () = sleep(self.timeout) => CommandStop::TimedOut,
            }
        };
        let reason = drain_until(&mut running.child, stop, |bytes| capture.push(bytes)).await;
        let timeouts = CommandStop::timeouts(reason);
        let ended = terminate(running.child, &timeouts, |bytes| capture.push(bytes)).await;
        // A command's own stderr is part of its output; this is from the helper that could not
        // start it.
        capture.push(helper_words.tail(|text| text.into()).as_bytes());
        let mut text = capture.finish().text;
        let _infallible = writeln!(
            text,
            "[{}, {:.1} s]",
            describe_end(reason, &ended, self.timeout),
            began.elapsed().as_secs_f64()
        );
        let is_ok = reason.is_none() && ended.status.is_some_and(|status| status.success());
        Ok(CallOutput { ok: is_ok, ..CallOutput::text(text) })
    }
}

/// Describes how a command ended, and what it left running.
pub(super) fn describe_end(
    reason: Option<CommandStop>,
    ended: &Termination,
    timeout: Duration,
) -> String {
    let mut text = match reason {
        Some(CommandStop::Cancelled) => "cancelled; all its processes were ended".to_owned(),
        Some(CommandStop::TimedOut) => format!(
            "ended after its limit of {} s; set `timeout`, or run it with `background`",
            timeout.as_secs()
        ),
        None => describe_status(ended.status),
    };
    if reason.is_none() && !ended.swept.is_empty() {
        let count = ended.swept.len();
        let _infallible = write!(
            text,
            "; {count} processes that it left running were ended, use `background` to keep them"
        );
    }
    text
}

fn describe_status(status: Option<ExitStatus>) -> String {
    match status.map(|status| (status.code(), status.signal())) {
        Some((Some(code), _)) => format!("exit code {code}"),
        Some((None, Some(signal))) => format!("ended by signal {signal}"),
        _ => "ended".to_owned(),
    }
}

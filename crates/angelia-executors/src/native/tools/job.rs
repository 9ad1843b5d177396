//! `job`: manages a command in the background.

use std::{sync::Arc, time::Duration};

use angelia_core::{model::CommandAccess, ports::BoxFuture};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    jobs::{Job, Jobs},
    tool::{CallError, CallIo, CallOutput, CallPlan, PreparedCall, Tool, parse_arguments},
};

/// The maximum time to wait for the end of a job, in seconds.
const MAX_WAIT: u64 = 300;

/// The time that a job has to respond to input.
const ANSWER_TIME: Duration = Duration::from_millis(300);

#[derive(Debug)]
pub struct JobTool {
    jobs: Arc<Jobs>,
    /// Why a person must be asked about input to a job.
    must_ask: Option<Arc<str>>,
}

impl JobTool {
    /// `must_ask` comes from the sandbox.
    pub fn new(jobs: Arc<Jobs>, must_ask: Option<Arc<str>>) -> Self {
        Self { jobs, must_ask }
    }
}

#[derive(Debug, Deserialize)]
struct JobArguments {
    id: u32,
    action: JobAction,
    input: Option<String>,
    #[serde(default)]
    wait: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum JobAction {
    Output,
    Kill,
    Input,
}

#[derive(Debug)]
struct JobCall {
    job: Arc<Job>,
    wanted: JobArguments,
    plan: CallPlan,
}

impl Tool for JobTool {
    fn name(&self) -> &'static str {
        "job"
    }

    fn description(&self) -> &'static str {
        "Look after a background command: its new `output` (waiting up to `wait` seconds for its end), \
         `kill` it, or send `input` to it."
    }

    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"id":{"type":"integer"},"action":{"enum":["output","kill","input"]},"input":{"type":"string","description":"text, with its newline"},"wait":{"type":"integer"}},"required":["id","action"]}"#
    }

    fn prepare(&self, arguments: &RawValue) -> Result<Box<dyn PreparedCall>, CallError> {
        let wanted: JobArguments = parse_arguments(arguments)?;
        let job = self.jobs.get(wanted.id)?;
        let id = wanted.id;
        let plan = match (wanted.action, &wanted.input) {
            (JobAction::Output, _) => {
                CallPlan::reads(format!("output of job {id}"), vec![job.output_path()])
            }
            (JobAction::Kill, _) => {
                CallPlan::reads(format!("kill job {id}"), vec![job.output_path()])
            }
            (JobAction::Input, None) => {
                return Err(CallError::new("`input` is missing; give the text to send"));
            }
            // The job may be a shell, so its input is checked like a command.
            (JobAction::Input, Some(text)) => {
                let access = CommandAccess::shell(&**text);
                let mut plan = CallPlan::executes(format!("input for job {id}"), Some(access));
                plan.must_ask.clone_from(&self.must_ask);
                plan
            }
        };
        Ok(Box::new(JobCall { job, wanted, plan }))
    }
}

impl PreparedCall for JobCall {
    fn plan(&self) -> &CallPlan {
        &self.plan
    }

    fn run(self: Box<Self>, io: CallIo) -> BoxFuture<'static, CallOutput> {
        Box::pin(async move { self.act(&io).await.into() })
    }
}

impl JobCall {
    async fn act(&self, io: &CallIo) -> Result<CallOutput, CallError> {
        match self.wanted.action {
            JobAction::Output => {
                let limit = Duration::from_secs(self.wanted.wait.min(MAX_WAIT));
                self.job.wait_end(limit, &io.cancel).await;
            }
            JobAction::Kill => self.job.kill().await,
            JobAction::Input => {
                self.job.send_input(self.wanted.input.as_deref().unwrap_or_default())?;
                self.job.wait_end(ANSWER_TIME, &io.cancel).await;
            }
        }
        Ok(CallOutput::text(self.job.show_new()))
    }
}

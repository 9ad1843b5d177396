//! The background commands of a session. They end with the session.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use angelia_core::task::TaskGroup;
use tokio::{
    io::AsyncWriteExt as _,
    process::ChildStdin,
    sync::{mpsc, oneshot, watch},
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    bash::{CommandStop, describe_end},
    command_text::{CutText, clean},
    output_folder::{OutputFile, OutputFolder},
    shell::{RunningCommand, Shell},
    tool::{CallError, CallOutput},
};
use crate::process::{merged_output::drain_until, terminate};

/// The maximum number of jobs that run at once.
const MAX_JOBS: usize = 16;

/// The maximum size of new output that is shown; more than that can be read from its file.
const MAX_NEW_BYTES: usize = 256 * 1024;

/// The maximum number of inputs that wait to be written to a job.
const INPUT_QUEUE: usize = 8;

/// How long to watch a job after its start, so that a command that fails at once is reported
/// immediately.
const FIRST_LOOK: Duration = Duration::from_millis(300);

/// The jobs of a session.
#[derive(Debug)]
pub struct Jobs {
    tasks: TaskGroup,
    /// Commands that a call waits for, not background jobs.
    commands: TaskTracker,
    output: Arc<OutputFolder>,
    next: AtomicU32,
    jobs: Mutex<BTreeMap<u32, Arc<Job>>>,
}

/// A command in the background.
#[derive(Debug)]
pub(super) struct Job {
    log: Mutex<JobLog>,
    /// A description of how the job ended; `None` while it runs.
    end: watch::Receiver<Option<Arc<str>>>,
    input: mpsc::Sender<Vec<u8>>,
    stop: CancellationToken,
}

#[derive(Debug)]
struct JobLog {
    file: OutputFile,
    /// The model has seen the output up to this offset.
    seen: u64,
}

impl Jobs {
    /// `tasks` are the session's tasks, which it awaits when it is closed.
    pub fn new(tasks: &TaskGroup, output: Arc<OutputFolder>) -> Self {
        Self {
            tasks: tasks.child(),
            commands: TaskTracker::new(),
            output,
            next: AtomicU32::new(1),
            jobs: Mutex::default(),
        }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<Job>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, id: u32) -> Result<Arc<Job>, CallError> {
        let jobs = self.all();
        jobs.get(&id).map(Arc::clone).ok_or_else(|| {
            let known: Vec<String> = jobs.keys().map(u32::to_string).collect();
            CallError::new(format!("there is no job {id}; the jobs are: {}", known.join(", ")))
        })
    }

    /// Starts a job, and tells the model where its output is.
    pub(super) async fn start(
        &self,
        shell: &Shell,
        script: &str,
        limit: Duration,
    ) -> Result<CallOutput, CallError> {
        let running = self.all().values().filter(|job| job.end.borrow().is_none()).count();
        if running >= MAX_JOBS {
            return Err(CallError::new(format!("{running} jobs run; kill one of them first")));
        }
        let file = self.output.create("job").map_err(|error| {
            CallError::new(format!("the file for the job's output cannot be created: {error}"))
        })?;
        let path = file.path().display().to_string();
        let mut running = shell.start(script).await?;
        let stdin = running.child.stdin.take();
        let (input, texts) = mpsc::channel(INPUT_QUEUE);
        let (told, mut end) = watch::channel(None);
        let job = Arc::new(Job {
            log: Mutex::new(JobLog { file, seen: 0 }),
            end: end.clone(),
            input,
            stop: self.tasks.stop_token().child_token(),
        });
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.all().insert(id, Arc::clone(&job));
        let task_job = Arc::clone(&job);
        self.tasks.spawn(async move {
            let ended = tokio::select! {
                ended = supervise(running, &task_job, limit) => ended,
                never = type_texts(stdin, texts) => never,
            };
            told.send_replace(Some(ended.into()));
        });
        // Wait a moment, so that a command that fails at once is reported now.
        let _running = tokio::time::timeout(FIRST_LOOK, end.wait_for(Option::is_some)).await;
        let head = format!("job {id} started; its output is in {path}\n");
        let look = job.show_new();
        Ok(CallOutput::text(head + &look))
    }

    /// Runs a command as a task, so that it is ended even if nobody waits for it any more.
    pub(super) async fn run_command(
        &self,
        command: impl Future<Output = Result<CallOutput, CallError>> + Send + 'static,
    ) -> Result<CallOutput, CallError> {
        let (sender, done) = oneshot::channel();
        self.tasks.spawn(self.commands.track_future(async move {
            let _nobody_waits = sender.send(command.await);
        }));
        done.await.unwrap_or_else(|_| Err(CallError::new("the tool failed")))
    }

    /// Ends all jobs and commands, and waits for them.
    pub async fn close(&self, grace: Duration) {
        self.tasks.stop_token().cancel();
        self.commands.close();
        let _late = tokio::time::timeout(grace, self.commands.wait()).await;
        let ends: Vec<_> = self.all().values().map(|job| job.end.clone()).collect();
        for mut end in ends {
            let _late = tokio::time::timeout(grace, end.wait_for(Option::is_some)).await;
        }
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.tasks.stop_token().cancel();
    }
}

impl Job {
    fn log(&self) -> MutexGuard<'_, JobLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn output_path(&self) -> std::path::PathBuf {
        self.log().file.path().to_owned()
    }

    /// Returns the output since the last call, and whether the job is still running.
    pub(super) fn show_new(&self) -> String {
        let end = self.end.borrow().clone();
        let mut log = self.log();
        let (from, all) = (log.seen, log.file.len());
        log.seen = all;
        let new = usize::try_from(all - from).unwrap_or(usize::MAX);
        let skipped = new.saturating_sub(MAX_NEW_BYTES) as u64;
        let bytes = log.file.read(from + skipped, MAX_NEW_BYTES).unwrap_or_default();
        let path = log.file.path().display();
        let remark = format!("[{new} new bytes; all of the output is in {path}]");
        let mut text = String::new();
        if skipped > 0 {
            let _infallible = writeln!(text, "… {remark} …");
        }
        text.push_str(&CutText::new(&clean(&bytes)).with_remark(&remark));
        let state = match &end {
            Some(end) => &**end,
            None if new == 0 => "it runs; nothing new",
            None => "it runs",
        };
        let _infallible = writeln!(text, "[{state}]");
        text
    }

    /// Waits for the job to end, but not longer than `limit`.
    pub(super) async fn wait_end(&self, limit: Duration, cancel: &CancellationToken) {
        let mut end = self.end.clone();
        tokio::select! {
            _ = end.wait_for(Option::is_some) => {}
            () = sleep(limit) => {}
            () = cancel.cancelled() => {}
        }
    }

    /// Ends the job and waits until all its processes are gone.
    pub(super) async fn kill(&self) {
        self.stop.cancel();
        let mut end = self.end.clone();
        let _gone = end.wait_for(Option::is_some).await;
    }

    pub(super) fn send_input(&self, text: &str) -> Result<(), CallError> {
        if self.end.borrow().is_some() {
            return Err(CallError::new("the job has ended; look at its output"));
        }
        self.input.try_send(text.into()).map_err(|_full| {
            CallError::new("the job does not read its input; look at its output, or kill it")
        })
    }
}

/// Writes the output of a job to its file until the job ends or is stopped. Returns how it ended.
async fn supervise(mut running: RunningCommand, job: &Job, limit: Duration) -> String {
    let stop = async {
        tokio::select! {
            () = job.stop.cancelled() => CommandStop::Cancelled,
            () = sleep(limit) => CommandStop::TimedOut,
        }
    };
    let helper_words = running.child.stderr();
    let write = |bytes: &[u8]| job.log().file.push(bytes);
    let reason = drain_until(&mut running.child, stop, write).await;
    let ended = terminate(running.child, &CommandStop::timeouts(reason), write).await;
    // A command's own stderr is part of its output; this is from the helper that could not start
    // it.
    write(helper_words.tail(|text| text.into()).as_bytes());
    describe_end(reason, &ended, limit)
}

/// Writes inputs to a job. Never completes, because a job may keep running without input.
async fn type_texts<T>(stdin: Option<ChildStdin>, mut texts: mpsc::Receiver<Vec<u8>>) -> T {
    if let Some(mut stdin) = stdin {
        while let Some(text) = texts.recv().await {
            if stdin.write_all(&text).await.is_err() {
                break;
            }
        }
        // Keep stdin open, because many programs exit when their input ends.
        return std::future::pending().await;
    }
    std::future::pending().await
}

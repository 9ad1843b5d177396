//! One of the owner's programs that runs alongside us and communicates in lines, such as a chat
//! platform's adapter. It carries the mark of a command, not of an agent, and gets a cleared
//! environment.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use angelia_core::{
    ports::{CommandStartError, ProgramOutput, ProgramSpec, RunningProgram},
    redact::may_be_secret,
};
use angelia_wire::ndjson::{Frame, Framer};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    commands::expand_home,
    environment::{EnvironmentAdditions, build_environment},
    spawn::{ProcessLaunch, SpawnError, spawn_heard},
    stderr::LineListener,
};
use crate::{ExecutorHost, process_link::ProcessLink};

/// The number of lines that can wait in each direction.
const QUEUE_LENGTH: usize = 64;

/// The number of bytes that can wait for a program that does not read them.
const MAX_QUEUED_BYTES: usize = 1 << 20;

/// How long a program has to end after its input was closed, before it is killed.
const STOP_GRACE: Duration = Duration::from_secs(4);

/// How long the last lines wait for a reader after the program has ended.
const LAST_LINES_TIMEOUT: Duration = Duration::from_secs(5);

/// Lines of stderr logged per minute. A program that keeps failing must not fill the disk.
const LOGGED_LINES: u32 = 300;

/// Starts a program.
pub(super) async fn start(
    host: &ExecutorHost,
    program: ProgramSpec,
) -> Result<RunningProgram, CommandStartError> {
    // The program's stderr and exit message are logged, so redact the secrets in its environment.
    host.redactor.add(program.env.iter().map(|(_, value)| value).filter(|one| may_be_secret(one)));
    let launch = prepare(host, &program)?;
    let listener = || Some(log_lines(host, &program.name));
    let child = spawn_heard(&launch, listener).await.map_err(|error| match error {
        SpawnError::NotFound(path) => CommandStartError::NotFound(path),
        error => CommandStartError::NotStarted(error.to_string()),
    })?;
    tracing::debug!(pid = child.pid(), "started {}", program.name);
    let mut link = ProcessLink::new(child, None);
    link.output.framer = Framer::new(program.max_line);
    let (input, lines_in) = mpsc::channel(QUEUE_LENGTH);
    let (lines_out, output) = mpsc::channel(QUEUE_LENGTH);
    let (stop, redactor) = (host.tasks.stop_token().clone(), host.redactor.clone());
    host.tasks.spawn(async move {
        if exchange_lines(&mut link, lines_in, &lines_out, &stop).await {
            let words = link.describe_exit(&redactor).await;
            let told = lines_out.send(ProgramOutput::Ended(words));
            let _nobody = timeout(LAST_LINES_TIMEOUT, told).await;
        }
        link.close(STOP_GRACE).await;
        // Drop the sender last: the output must not end for the other side before the program has.
        drop(lines_out);
    });
    Ok(RunningProgram { input, output })
}

fn prepare(host: &ExecutorHost, program: &ProgramSpec) -> Result<ProcessLaunch, CommandStartError> {
    let not_started = |error: String| CommandStartError::NotStarted(error);
    let mark = host.fresh_command_mark().map_err(|error| not_started(error.to_string()))?;
    let set: BTreeMap<String, String> =
        program.env.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let additions = EnvironmentAdditions { pass: &[], set: &set, home: &host.user_home };
    let env = build_environment(&host.environment, additions, &mark)
        .map_err(|error| not_started(error.to_string()))?;
    let path = if program.program.contains('/') {
        expand_home(host, &program.program)
    } else {
        host.find_program(&*program.program, &env)
            .ok_or_else(|| CommandStartError::NotFound(PathBuf::from(&*program.program)))?
    };
    let home = &host.user_home;
    Ok(ProcessLaunch {
        program: path,
        args: program.args.iter().map(|arg| (&**arg).into()).collect(),
        cwd: if home.is_dir() { home.clone() } else { "/".into() },
        env,
        mark,
        ledger: host.ledger.clone(),
    })
}

/// Passes lines on in both directions. Returns `true` if the program ended its output itself, and
/// `false` if the program is no longer wanted.
async fn exchange_lines(
    link: &mut ProcessLink,
    mut input: mpsc::Receiver<Vec<u8>>,
    output: &mpsc::Sender<ProgramOutput>,
    stop: &CancellationToken,
) -> bool {
    loop {
        // Take no more input while the program does not read, so that the queue stays bounded. Do
        // not wait for output before the next line either, because the program need not answer.
        let has_room = link.input.pending_bytes() < MAX_QUEUED_BYTES;
        let has_more = tokio::select! {
            () = stop.cancelled() => return false,
            more = link.exchange() => more,
            words = input.recv(), if has_room => {
                let Some(words) = words else { return false };
                link.input.push(words);
                continue;
            }
        };
        while let Some(frame) = next_frame(&mut link.output.framer, has_more) {
            let sent = tokio::select! {
                () = stop.cancelled() => return false,
                sent = output.send(frame) => sent,
            };
            if sent.is_err() {
                return false;
            }
        }
        if !has_more {
            return true;
        }
    }
}

fn next_frame(framer: &mut Framer, has_more: bool) -> Option<ProgramOutput> {
    let frame = if has_more { framer.next()? } else { framer.finish()? };
    Some(match frame {
        Frame::Line(line) | Frame::Partial(line) => ProgramOutput::Line(line.to_vec()),
        Frame::TooLong { bytes, .. } => ProgramOutput::TooLong(bytes),
    })
}

/// Writes a program's stderr to the log, with secrets redacted.
fn log_lines(host: &ExecutorHost, name: &Arc<str>) -> LineListener {
    let (redactor, name) = (host.redactor.clone(), Arc::clone(name));
    let (mut begun, mut count) = (Instant::now(), 0);
    Box::new(move |line| {
        if begun.elapsed() > Duration::from_mins(1) {
            (begun, count) = (Instant::now(), 0);
        }
        count += 1;
        match count {
            ..=LOGGED_LINES => tracing::info!("{name}: {}", redactor.redact(line)),
            count if count == LOGGED_LINES + 1 => {
                tracing::info!("{name}: (further lines in this minute are skipped)");
            }
            _ => {}
        }
    })
}

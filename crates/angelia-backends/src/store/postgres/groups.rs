//! The connection for what only the owner of a session writes. It commits in groups: jobs that are queued
//! while a transaction runs share the next one, which is sent in one go and waits for one answer.
//!
//! The jobs are statements whose checks raise an error. The error of one job rolls the group back; the
//! others are sent again without it. Nobody is answered before the group is committed, because a
//! refusal may depend on a job of the same group.

use std::{
    future::poll_fn,
    pin::Pin,
    task::Poll,
    time::{Duration, Instant},
};

use angelia_core::ports::{PendingCommit, StoreError};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::types::ToSql;

use super::{
    connection::PgConnection,
    error::{PgError, Trouble, closed_error},
    ledger::LedgerColumn,
    link::{PATIENCE, WriteLink},
    owner_row,
};

/// The number of jobs that may wait; further callers wait for room.
const MAX_QUEUED_JOBS: usize = 256;
/// The maximum number of jobs in one transaction, to limit the latency of the first one.
const MAX_GROUP_JOBS: usize = 512;
/// A group ends with the job that makes it this long.
const MAX_GROUP_BYTES: usize = 4 << 20;
/// Without anything to write, the owner's row is refreshed so often.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// How often a group that collides with another transaction is sent.
const MAX_COLLISIONS: u32 = 5;

pub(super) type Value = Box<dyn ToSql + Send + Sync>;

/// Makes a list of parameters of a [`Call`].
macro_rules! values {
    ($($value:expr),* $(,)?) => { vec![$(Box::new($value) as $crate::store::postgres::groups::Value),*] };
}
pub(super) use values;

/// A statement with its parameters.
pub(super) struct Call {
    pub(super) sql: &'static str,
    pub(super) values: Vec<Value>,
}

/// The statements of a job.
#[derive(Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
    /// About the number of bytes to send.
    bytes: usize,
}

impl Calls {
    pub(super) fn add(&mut self, sql: &'static str, values: Vec<Value>) {
        self.calls.push(Call { sql, values });
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter()
    }

    /// Adds a statement with a long parameter.
    pub(super) fn add_long(&mut self, sql: &'static str, values: Vec<Value>, bytes: usize) {
        self.add(sql, values);
        self.bytes += bytes;
    }
}

struct GroupJob {
    calls: Calls,
    reply: oneshot::Sender<Result<(), StoreError>>,
}

enum GroupCommand {
    Job(GroupJob),
    /// Answered when every job before it has been committed.
    Close(oneshot::Sender<()>),
}

/// The sending side.
#[derive(Clone)]
pub(super) struct GroupQueue(mpsc::Sender<GroupCommand>);

/// The receiving side.
pub(super) struct GroupInbox(mpsc::Receiver<GroupCommand>);

pub(super) fn queue() -> (GroupQueue, GroupInbox) {
    let (sender, receiver) = mpsc::channel(MAX_QUEUED_JOBS);
    (GroupQueue(sender), GroupInbox(receiver))
}

impl GroupQueue {
    /// Queues a job. The returned [`PendingCommit`] resolves when the job is committed.
    pub(super) async fn queue(&self, calls: Calls) -> Result<PendingCommit, StoreError> {
        let (reply, committed) = PendingCommit::new();
        let job = GroupCommand::Job(GroupJob { calls, reply });
        self.0.send(job).await.map_err(|_closed| closed_error())?;
        Ok(committed)
    }

    /// Queues a job and waits for its commit.
    pub(super) async fn write(&self, calls: Calls) -> Result<(), StoreError> {
        self.queue(calls).await?.await
    }

    pub(super) async fn close(&self) {
        let (reply, closed) = oneshot::channel();
        if self.0.send(GroupCommand::Close(reply)).await.is_ok() {
            let _writer_gone = closed.await;
        }
    }
}

/// Commits groups until the store is closed or dropped. Returns the link, and who waits for its end.
pub(super) async fn run(
    mut link: WriteLink,
    GroupInbox(mut inbox): GroupInbox,
) -> (WriteLink, Vec<oneshot::Sender<()>>) {
    debug_assert_eq!(link.ledger.column, LedgerColumn::Batch);
    let mut closers = Vec::new();
    loop {
        let command = match tokio::time::timeout(HEARTBEAT, inbox.recv()).await {
            Ok(Some(command)) => command,
            Ok(None) => return (link, closers),
            Err(_idle) => {
                beat(&mut link).await;
                continue;
            }
        };
        match command {
            GroupCommand::Job(first) => {
                let group = collect(first, &mut inbox, &mut closers);
                write_group(&mut link, group).await;
            }
            GroupCommand::Close(reply) => closers.push(reply),
        }
        if !closers.is_empty() {
            // No new jobs are accepted, but those in the queue are still written.
            inbox.close();
        }
    }
}

/// Refreshes the owner's row. Trouble is left to the next job, or to the next beat.
async fn beat(link: &mut WriteLink) {
    let Some(owner) = link.context.owner.get() else { return };
    let beaten = match link.connection() {
        Some(connection) => owner_row::beat(connection, owner.id()).await,
        None => Ok(()),
    };
    match beaten {
        Ok(()) if link.connection().is_some() => {}
        Ok(()) => {
            let _tried_again = link.ready().await;
        }
        Err(error) => {
            tracing::debug!(?error, "the heartbeat has failed");
            if error.trouble() == Trouble::Connection {
                link.drop_connection();
            }
        }
    }
}

/// Takes what is queued behind the first job, without waiting.
fn collect(
    first: GroupJob,
    inbox: &mut mpsc::Receiver<GroupCommand>,
    closers: &mut Vec<oneshot::Sender<()>>,
) -> Vec<GroupJob> {
    let mut bytes = first.calls.bytes;
    let mut group = vec![first];
    while group.len() < MAX_GROUP_JOBS && bytes < MAX_GROUP_BYTES {
        match inbox.try_recv() {
            Ok(GroupCommand::Job(job)) => {
                bytes += job.calls.bytes;
                group.push(job);
            }
            Ok(GroupCommand::Close(reply)) => closers.push(reply),
            Err(_empty_or_closed) => break,
        }
    }
    group
}

/// What became of a group that was sent.
enum Sent {
    Committed,
    /// The transaction was rolled back because of one of the jobs, or of the owner's row.
    RolledBack {
        job: Option<usize>,
        error: PgError,
    },
    /// The connection was lost before the commit was sent.
    Unsent,
    /// The connection was lost after that.
    AnswerLost,
}

/// Commits a group, whatever it takes, and answers every job.
async fn write_group(link: &mut WriteLink, mut group: Vec<GroupJob>) {
    let mut refused = Vec::new();
    let outcome = commit(link, &mut group, &mut refused).await;
    for job in group {
        let _nobody_waits = job.reply.send(outcome.clone());
    }
    for (job, error) in refused {
        let _nobody_waits = job.reply.send(Err(match &outcome {
            Ok(()) => error,
            Err(failure) => failure.clone(),
        }));
    }
}

async fn commit(
    link: &mut WriteLink,
    group: &mut Vec<GroupJob>,
    refused: &mut Vec<(GroupJob, StoreError)>,
) -> Result<(), StoreError> {
    let since = Instant::now();
    let mut in_doubt = None;
    let mut collisions = 0;
    while !group.is_empty() {
        let settled = link.ready().await?;
        if settled.is_some() && settled == in_doubt {
            return Ok(());
        }
        let attempt = link.ledger.next();
        match send(link, group, attempt).await {
            Sent::Committed => {
                link.ledger.note_commit(attempt);
                return Ok(());
            }
            Sent::AnswerLost => {
                tracing::info!(
                    jobs = group.len(),
                    "the answer to a commit was lost; looking it up"
                );
                in_doubt = Some(attempt);
                link.ledger.note_lost_answer(attempt);
                link.drop_connection();
                link.give_up_after(since)?;
            }
            Sent::Unsent => {
                link.drop_connection();
                link.give_up_after(since)?;
            }
            Sent::RolledBack { error, .. }
                if error.trouble() == Trouble::Collision && collisions < MAX_COLLISIONS =>
            {
                collisions += 1;
            }
            Sent::RolledBack { job: None, error } if error.is_fence() => {
                return Err(link.explain_fence().await);
            }
            Sent::RolledBack { job, error } => {
                let error = error.into_store_error(&link.context.address);
                // What is not the fault of one job, such as a full disk, meets the others too.
                let is_of_one_job =
                    !error.is_temporary() || matches!(error, StoreError::TooLarge { .. });
                match job {
                    Some(job) if is_of_one_job => refused.push((group.remove(job), error)),
                    _ => return Err(error),
                }
            }
        }
    }
    Ok(())
}

type Execution<'a> = Pin<Box<dyn Future<Output = Result<(), tokio_postgres::Error>> + 'a>>;

/// Sends a group as one transaction, and waits for its end.
async fn send(link: &WriteLink, group: &[GroupJob], attempt: i64) -> Sent {
    let (Some(connection), Some(owner)) = (link.connection(), link.context.owner.get()) else {
        return Sent::Unsent;
    };
    let enter = link.ledger.column.enter_sql();
    if let Err((job, error)) = prepare(connection, enter, group).await {
        return match PgError::from(error) {
            error if error.trouble() == Trouble::Connection => Sent::Unsent,
            error => Sent::RolledBack { job, error },
        };
    }
    let (me, known) = (owner.id(), link.ledger.known());
    let entering: [&(dyn ToSql + Sync); 3] = [&me, &known, &attempt];
    // Each with the job it belongs to. The order of the first polls is the order on the wire.
    let mut pipeline: Vec<(Option<usize>, Execution<'_>)> =
        vec![(None, Box::pin(connection.client().batch_execute("BEGIN")))];
    pipeline.push((None, execution(connection, enter, entering.to_vec())));
    for (number, job) in group.iter().enumerate() {
        for call in &job.calls.calls {
            let values = call.values.iter().map(|value| &**value as &(dyn ToSql + Sync));
            pipeline.push((Some(number), execution(connection, call.sql, values.collect())));
        }
    }
    pipeline.push((None, Box::pin(connection.client().batch_execute("COMMIT"))));
    // A server that hangs, or is behind a network that swallows everything, never answers.
    tokio::time::timeout(PATIENCE, await_all(pipeline)).await.unwrap_or(Sent::AnswerLost)
}

/// Prepares the statements of a group; most often they are prepared already.
async fn prepare(
    connection: &PgConnection,
    enter: &str,
    group: &[GroupJob],
) -> Result<(), (Option<usize>, tokio_postgres::Error)> {
    connection.prepare(enter).await.map_err(|error| (None, error))?;
    for (number, job) in group.iter().enumerate() {
        for call in &job.calls.calls {
            connection.prepare(call.sql).await.map_err(|error| (Some(number), error))?;
        }
    }
    Ok(())
}

fn execution<'a>(
    connection: &'a PgConnection,
    sql: &str,
    values: Vec<&'a (dyn ToSql + Sync)>,
) -> Execution<'a> {
    let statement = connection.prepared(sql);
    Box::pin(async move {
        // It has been prepared a moment ago.
        let Some(statement) = statement else { return Ok(()) };
        connection.client().execute(&statement, &values).await.map(drop)
    })
}

/// Sends all statements, and waits for their answers in order.
async fn await_all(mut pipeline: Vec<(Option<usize>, Execution<'_>)>) -> Sent {
    let mut answers = Vec::with_capacity(pipeline.len());
    // A statement is sent when it is polled for the first time.
    for (_, execution) in &mut pipeline {
        answers.push(poll_fn(|cx| Poll::Ready(execution.as_mut().poll(cx))).await);
    }
    for ((job, execution), answer) in pipeline.iter_mut().zip(answers) {
        let answer = match answer {
            Poll::Ready(answer) => answer,
            Poll::Pending => execution.await,
        };
        let Err(error) = answer else { continue };
        let error = PgError::from(error);
        return match error.trouble() {
            // An error of the server before the commit means that it rolls back; a lost connection leaves
            // it open, because the commit has been sent.
            Trouble::Connection => Sent::AnswerLost,
            Trouble::Collision | Trouble::Statement => Sent::RolledBack { job: *job, error },
        };
    }
    Sent::Committed
}

impl std::fmt::Debug for GroupQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GroupQueue")
    }
}

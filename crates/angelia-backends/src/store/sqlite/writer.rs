//! The writer thread of the store. It commits in groups: jobs that are queued while the last
//! transaction runs share the next one, and no job is answered before its commit.
//!
//! Every job has a savepoint of its own, so that a job that fails does not affect the others. When
//! SQLite rolls back the whole transaction (a full disk), the jobs are tried again one by one.
//!
//! A process that mostly reads starts the thread with its first job: opening the file for writing
//! takes longer than most reads.

use std::{
    cell::RefCell,
    fmt,
    path::Path,
    sync::Arc,
    thread::{self, JoinHandle},
};

use angelia_core::ports::{PendingCommit, StoreError};
use rusqlite::Connection;
use tokio::sync::{OnceCell, mpsc, oneshot};

use super::{
    checkpoint::Checkpointer,
    error::{SqliteError, describe_error, is_busy},
    open::{self, OpenStoreError},
};
use crate::{
    owners::{OwnerLock, OwnerRegistry},
    store::writer_owner::WriterOwner,
};

/// The number of jobs that may wait; further callers wait for room.
const MAX_QUEUED_JOBS: usize = 256;
/// The maximum number of jobs in one transaction, to limit the latency of the first one.
const MAX_GROUP_JOBS: usize = 512;

/// The connection and the context that a job works with.
pub(super) struct Db {
    pub(super) connection: Connection,
    pub(super) owner: Arc<OwnerLock>,
    /// A buffer that is reused for every encoded body.
    pub(super) scratch: RefCell<Vec<u8>>,
    path: Arc<Path>,
}

pub(super) struct Writer {
    path: Arc<Path>,
    owner: WriterOwner,
    thread: OnceCell<WriterThread>,
}

struct WriterThread {
    commands: mpsc::Sender<WriterCommand>,
    thread: Option<JoinHandle<()>>,
}

enum WriterCommand {
    Job(Box<dyn Job>),
    /// Answered when every job before it has been committed and the file is closed.
    Close(oneshot::Sender<()>),
}

/// A unit of work for the writer. It may be attempted more than once, each time in a transaction
/// that contains nothing of the earlier attempt.
trait Job: Send {
    /// Runs the job. Returns `false` if its writes must be rolled back.
    fn attempt(&mut self, db: &Db) -> bool;
    fn send_reply(self: Box<Self>, path: &Path, commit: Result<(), StoreError>);
}

struct WriteJob<T, F> {
    work: F,
    result: Option<Result<T, SqliteError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Job for WriteJob<T, F>
where
    T: Send,
    F: Fn(&Db) -> Result<T, SqliteError> + Send,
{
    fn attempt(&mut self, db: &Db) -> bool {
        let result = (self.work)(db);
        let succeeded = result.is_ok();
        self.result = Some(result);
        succeeded
    }

    fn send_reply(self: Box<Self>, path: &Path, commit: Result<(), StoreError>) {
        let answer = match (self.result, commit) {
            // The job's own error says more than the error of the transaction.
            (Some(Err(trouble)), _) => Err(trouble.into_store_error(path)),
            (_, Err(error)) => Err(error),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (None, Ok(())) => Err(closed_error()),
        };
        let _nobody_waits = self.reply.send(answer);
    }
}

impl Writer {
    pub(super) fn start(
        connection: Connection,
        path: &Arc<Path>,
        owner: Arc<OwnerLock>,
    ) -> Result<Self, OpenStoreError> {
        let thread = WriterThread::start(connection, path, Arc::clone(&owner))?;
        Ok(Self {
            path: Arc::clone(path),
            owner: WriterOwner::Registered(owner),
            thread: OnceCell::new_with(Some(thread)),
        })
    }

    /// Returns a writer that opens the file with its first job.
    pub(super) fn with_first_job(
        path: &Arc<Path>,
        owners: &OwnerRegistry,
        command: &'static str,
    ) -> Self {
        Self {
            path: Arc::clone(path),
            owner: WriterOwner::WithFirstJob { owners: owners.clone(), command },
            thread: OnceCell::new(),
        }
    }

    /// Returns the registry in which the owners of sessions are found.
    pub(super) fn owners(&self) -> &OwnerRegistry {
        self.owner.registry()
    }

    /// Queues a job. The returned [`Committed`] resolves when the job is committed.
    pub(super) async fn queue(
        &self,
        work: impl Fn(&Db) -> Result<(), SqliteError> + Send + 'static,
    ) -> Result<PendingCommit, StoreError> {
        let (reply, committed) = PendingCommit::new();
        self.send(work, reply).await?;
        Ok(committed)
    }

    async fn send<T: Send + 'static>(
        &self,
        work: impl Fn(&Db) -> Result<T, SqliteError> + Send + 'static,
        reply: oneshot::Sender<Result<T, StoreError>>,
    ) -> Result<(), StoreError> {
        let task = WriteJob { work, result: None, reply };
        let started = self.thread.get_or_try_init(|| async { self.start_thread() }).await;
        let thread = started.map_err(|error| StoreError::Failed { message: error.to_string() })?;
        thread
            .commands
            .send(WriterCommand::Job(Box::new(task)))
            .await
            .map_err(|_closed| closed_error())
    }

    /// Opens the file for writing and starts the thread.
    fn start_thread(&self) -> Result<WriterThread, OpenStoreError> {
        let owner = self.owner.register()?;
        WriterThread::start(open::open_writable(&self.path)?, &self.path, owner)
    }

    /// Queues a job and waits for its commit.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl Fn(&Db) -> Result<T, SqliteError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.send(work, reply).await?;
        answer.await.unwrap_or_else(|_writer_gone| Err(closed_error()))
    }

    pub(super) async fn close(&self) {
        // A thread that has not been started yet is never started after this.
        let thread = self.thread.get_or_init(|| async { WriterThread::ended() }).await;
        let (reply, closed) = oneshot::channel();
        if thread.commands.send(WriterCommand::Close(reply)).await.is_ok() {
            let _writer_gone = closed.await;
        }
    }
}

impl WriterThread {
    fn start(
        connection: Connection,
        path: &Arc<Path>,
        owner: Arc<OwnerLock>,
    ) -> Result<Self, OpenStoreError> {
        let (commands, receiver) = mpsc::channel(MAX_QUEUED_JOBS);
        let db = Db { connection, owner, scratch: RefCell::default(), path: Arc::clone(path) };
        let thread = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || run(db, receiver))
            .map_err(|source| OpenStoreError::Thread { path: path.to_path_buf(), source })?;
        Ok(Self { commands, thread: Some(thread) })
    }

    /// Returns a thread that takes no jobs.
    fn ended() -> Self {
        let (commands, _) = mpsc::channel(1);
        Self { commands, thread: None }
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        // Dropping the sender ends the thread, which works off the queue first.
        let (nowhere, _) = mpsc::channel(1);
        self.commands = nowhere;
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

pub(super) fn closed_error() -> StoreError {
    StoreError::Failed { message: "the store has been closed; start angelia again".to_owned() }
}

fn run(db: Db, mut messages: mpsc::Receiver<WriterCommand>) {
    let mut closers = Vec::new();
    let mut checkpointer = Checkpointer::new(Arc::clone(&db.path));
    while let Some(message) = messages.blocking_recv() {
        match message {
            WriterCommand::Job(first) => {
                write_group(&db, first, &mut messages, &mut closers);
                checkpointer.note_commit();
            }
            WriterCommand::Close(reply) => closers.push(reply),
        }
        if !closers.is_empty() {
            // No new jobs are accepted, but those in the queue are still written.
            messages.close();
        }
    }
    drop(checkpointer);
    drop(db);
    for reply in closers {
        let _nobody_waits = reply.send(());
    }
}

/// Writes `first` and everything that is queued behind it in one transaction.
fn write_group(
    db: &Db,
    first: Box<dyn Job>,
    messages: &mut mpsc::Receiver<WriterCommand>,
    closers: &mut Vec<oneshot::Sender<()>>,
) {
    let mut group = Vec::new();
    let mut next = Some(first);
    // Before the loop, because this waits for other processes that write: jobs that are queued
    // meanwhile join the group.
    let mut state = db.begin();
    while let Some(mut job) = next.take() {
        if state.is_ok() {
            state = db.attempt_in_savepoint(job.as_mut());
        }
        group.push(job);
        if group.len() < MAX_GROUP_JOBS {
            next = next_job(messages, closers);
        }
    }
    // SQLite has rolled back by itself if it is back in autocommit mode.
    let is_lost = db.connection.is_autocommit();
    if state.is_ok() && !is_lost {
        state = db.execute("COMMIT");
    }
    match state {
        Ok(()) if !is_lost => reply_all(db, group, &Ok(())),
        // Another process holds the lock: every job would fail alike, and has waited long enough.
        Err(error) if is_busy(&error) => {
            db.roll_back();
            reply_all(db, group, &Err(db.store_error(&error)));
        }
        Ok(()) | Err(_) => {
            db.roll_back();
            tracing::warn!(jobs = group.len(), "a transaction failed; trying its jobs one by one");
            for job in group {
                write_alone(db, job);
            }
        }
    }
}

/// Returns the next job without waiting.
fn next_job(
    messages: &mut mpsc::Receiver<WriterCommand>,
    closers: &mut Vec<oneshot::Sender<()>>,
) -> Option<Box<dyn Job>> {
    loop {
        match messages.try_recv() {
            Ok(WriterCommand::Job(job)) => return Some(job),
            Ok(WriterCommand::Close(reply)) => closers.push(reply),
            Err(_empty_or_closed) => return None,
        }
    }
}

fn write_alone(db: &Db, mut job: Box<dyn Job>) {
    let commit =
        db.begin().and_then(|()| if job.attempt(db) { db.execute("COMMIT") } else { Ok(()) });
    db.roll_back();
    job.send_reply(&db.path, commit.map_err(|error| db.store_error(&error)));
}

fn reply_all(db: &Db, group: Vec<Box<dyn Job>>, commit: &Result<(), StoreError>) {
    for job in group {
        job.send_reply(&db.path, commit.clone());
    }
}

impl Db {
    fn begin(&self) -> rusqlite::Result<()> {
        // Immediate, because a transaction that starts as a reader and then writes cannot wait for
        // another writer.
        self.execute("BEGIN IMMEDIATE")
    }

    /// Attempts a job within a savepoint. An error means that the whole transaction is lost.
    fn attempt_in_savepoint(&self, job: &mut dyn Job) -> rusqlite::Result<()> {
        if self.connection.is_autocommit() {
            return Ok(());
        }
        self.execute("SAVEPOINT job")?;
        if !job.attempt(self) {
            if self.connection.is_autocommit() {
                return Ok(());
            }
            self.execute("ROLLBACK TO job")?;
        }
        self.execute("RELEASE job")
    }

    /// Rolls back the transaction if there still is one.
    fn roll_back(&self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.execute("ROLLBACK")
        {
            tracing::warn!(%error, "could not roll back");
        }
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }

    fn store_error(&self, error: &rusqlite::Error) -> StoreError {
        StoreError::Failed { message: describe_error(&self.path, error) }
    }
}

//! The one thread that writes. It commits in groups: whatever has queued up while the last
//! transaction was on its way shares the next one, and nobody is answered before the commit.
//!
//! Every job has a savepoint of its own, so that one that fails leaves the others alone. Where
//! SQLite gives up the whole transaction (a full disk), the jobs are tried again one by one.

use std::{
    cell::RefCell,
    fmt,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
};

use angelia_core::ports::{Committed, StoreError};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::{
    checkpoint::Checkpointer,
    open::OpenError,
    trouble::{Trouble, describe, is_busy},
};
use crate::owners::OwnerLock;

/// How many jobs may wait; then those who send wait.
const QUEUE: usize = 256;
/// How many jobs share one transaction at most, for the sake of the first one's latency.
const GROUP: usize = 512;

/// What a job works with.
pub(super) struct Db {
    pub(super) connection: Connection,
    pub(super) owner: Arc<OwnerLock>,
    /// Reused for every body that is encoded.
    pub(super) scratch: RefCell<Vec<u8>>,
    path: Arc<Path>,
}

pub(super) struct Writer {
    messages: mpsc::Sender<Message>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

enum Message {
    Job(Box<dyn Job>),
    /// Answered when everything before it has been committed and the file is closed.
    Close(oneshot::Sender<()>),
}

/// Something to write. It may be tried more than once, each time in a transaction that holds
/// nothing of the earlier try.
trait Job: Send {
    /// `false`: what it wrote must be taken back.
    fn attempt(&mut self, db: &Db) -> bool;
    fn answer(self: Box<Self>, path: &Path, commit: Result<(), StoreError>);
}

struct Task<T, F> {
    work: F,
    result: Option<Result<T, Trouble>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Job for Task<T, F>
where
    T: Send,
    F: Fn(&Db) -> Result<T, Trouble> + Send,
{
    fn attempt(&mut self, db: &Db) -> bool {
        let result = (self.work)(db);
        let succeeded = result.is_ok();
        self.result = Some(result);
        succeeded
    }

    fn answer(self: Box<Self>, path: &Path, commit: Result<(), StoreError>) {
        let answer = match (self.result, commit) {
            // Its own refusal says more than the fate of the transaction.
            (Some(Err(trouble)), _) => Err(trouble.into_store_error(path)),
            (_, Err(error)) => Err(error),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (None, Ok(())) => Err(closed()),
        };
        let _nobody_waits = self.reply.send(answer);
    }
}

impl Writer {
    pub(super) fn start(
        connection: Connection,
        path: &Arc<Path>,
        owner: Arc<OwnerLock>,
    ) -> Result<Self, OpenError> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let db = Db { connection, owner, scratch: RefCell::default(), path: Arc::clone(path) };
        let thread = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || run(db, receiver))
            .map_err(|source| OpenError::Thread { path: path.to_path_buf(), source })?;
        Ok(Self { messages: sender, thread: Mutex::new(Some(thread)) })
    }

    /// Queues a job; what is returned resolves when it is committed.
    pub(super) async fn queue(
        &self,
        work: impl Fn(&Db) -> Result<(), Trouble> + Send + 'static,
    ) -> Result<Committed, StoreError> {
        let (reply, committed) = Committed::new();
        self.send(work, reply).await?;
        Ok(committed)
    }

    async fn send<T: Send + 'static>(
        &self,
        work: impl Fn(&Db) -> Result<T, Trouble> + Send + 'static,
        reply: oneshot::Sender<Result<T, StoreError>>,
    ) -> Result<(), StoreError> {
        let task = Task { work, result: None, reply };
        self.messages.send(Message::Job(Box::new(task))).await.map_err(|_closed| closed())
    }

    /// Writes and waits for the commit.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl Fn(&Db) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.send(work, reply).await?;
        answer.await.unwrap_or_else(|_writer_gone| Err(closed()))
    }

    pub(super) async fn close(&self) {
        let (reply, closed) = oneshot::channel();
        if self.messages.send(Message::Close(reply)).await.is_ok() {
            let _writer_gone = closed.await;
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Dropping the sender is what ends the thread; it empties the queue first.
        let (nowhere, _) = mpsc::channel(1);
        self.messages = nowhere;
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _panicked = thread.join();
        }
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

pub(super) fn closed() -> StoreError {
    StoreError::Failed { message: "the store has been closed; start angelia again".to_owned() }
}

fn run(db: Db, mut messages: mpsc::Receiver<Message>) {
    let mut closers = Vec::new();
    let mut checkpointer = Checkpointer::new(Arc::clone(&db.path));
    while let Some(message) = messages.blocking_recv() {
        match message {
            Message::Job(first) => {
                write_group(&db, first, &mut messages, &mut closers);
                checkpointer.committed();
            }
            Message::Close(reply) => closers.push(reply),
        }
        if !closers.is_empty() {
            // Nothing new is taken, but what is queued is still written.
            messages.close();
        }
    }
    drop(checkpointer);
    drop(db);
    for reply in closers {
        let _nobody_waits = reply.send(());
    }
}

fn write_group(
    db: &Db,
    first: Box<dyn Job>,
    messages: &mut mpsc::Receiver<Message>,
    closers: &mut Vec<oneshot::Sender<()>>,
) {
    let mut group = Vec::new();
    let mut next = Some(first);
    // What queues up while another process writes joins the group, hence before the loop.
    let mut state = db.begin();
    while let Some(mut job) = next.take() {
        if state.is_ok() {
            state = db.within_savepoint(job.as_mut());
        }
        group.push(job);
        if group.len() < GROUP {
            next = next_job(messages, closers);
        }
    }
    let is_lost = db.connection.is_autocommit();
    if state.is_ok() && !is_lost {
        state = db.execute("COMMIT");
    }
    match state {
        Ok(()) if !is_lost => answer(db, group, &Ok(())),
        // A lock that somebody else holds concerns all alike; they have waited enough.
        Err(error) if is_busy(&error) => {
            db.roll_back();
            answer(db, group, &Err(db.failed(&error)));
        }
        Ok(()) | Err(_) => {
            db.roll_back();
            tracing::warn!(jobs = group.len(), "a transaction was given up; one by one");
            for job in group {
                write_alone(db, job);
            }
        }
    }
}

fn next_job(
    messages: &mut mpsc::Receiver<Message>,
    closers: &mut Vec<oneshot::Sender<()>>,
) -> Option<Box<dyn Job>> {
    loop {
        match messages.try_recv() {
            Ok(Message::Job(job)) => return Some(job),
            Ok(Message::Close(reply)) => closers.push(reply),
            Err(_empty_or_closed) => return None,
        }
    }
}

fn write_alone(db: &Db, mut job: Box<dyn Job>) {
    let commit =
        db.begin().and_then(|()| if job.attempt(db) { db.execute("COMMIT") } else { Ok(()) });
    db.roll_back();
    job.answer(&db.path, commit.map_err(|error| db.failed(&error)));
}

fn answer(db: &Db, group: Vec<Box<dyn Job>>, commit: &Result<(), StoreError>) {
    for job in group {
        job.answer(&db.path, commit.clone());
    }
}

impl Db {
    fn begin(&self) -> rusqlite::Result<()> {
        // Immediately, because a reader that becomes a writer cannot wait for another one.
        self.execute("BEGIN IMMEDIATE")
    }

    /// An error means that the whole transaction is lost.
    fn within_savepoint(&self, job: &mut dyn Job) -> rusqlite::Result<()> {
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

    /// Ends what is left of a transaction.
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

    fn failed(&self, error: &rusqlite::Error) -> StoreError {
        StoreError::Failed { message: describe(&self.path, error) }
    }
}

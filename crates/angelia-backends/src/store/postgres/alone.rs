//! The connection for what other processes may write too. It commits one job at a time, and may wait for
//! the transaction of another process, which the groups must not.
//!
//! A job reads, decides and writes in one transaction. Its result is known before the commit is sent, so
//! that a lost answer does not lose the result.

use std::{cell::Cell, fmt, time::Instant};

use angelia_core::ports::{PendingCommit, StoreError};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::{Row, types::ToSql};

use super::{
    connection::{Parameters, PgConnection},
    error::{PgError, Trouble, closed_error},
    groups::Calls,
    ledger::LedgerColumn,
    link::WriteLink,
    owner_row::{Machine, RegisteredOwner},
};

/// The number of jobs that may wait; further callers wait for room.
const MAX_QUEUED_JOBS: usize = 256;
/// How often a job that collides with another transaction is tried.
const MAX_COLLISIONS: u32 = 10;

/// The transaction of a job.
///
/// Locks are taken in one order, or two transactions could wait for each other: first rows that any
/// process may lock, then the owner's row ([`Transaction::enter`]), then rows of sessions and turns,
/// which a group locks while it holds the owner's row.
pub(super) struct Transaction<'a> {
    pub(super) connection: &'a PgConnection,
    pub(super) owner: &'a RegisteredOwner,
    pub(super) machine: &'a Machine,
    enter_sql: &'static str,
    known: i64,
    attempt: i64,
    has_entered: Cell<bool>,
}

impl Transaction<'_> {
    pub(super) async fn query(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, PgError> {
        Ok(self.connection.query(sql, parameters).await?)
    }

    /// Returns the number of rows that the statement has changed.
    pub(super) async fn execute(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<u64, PgError> {
        self.connection.execute(sql, parameters).await
    }

    /// Runs the statements of a job of a group.
    pub(super) async fn run(&self, calls: &Calls) -> Result<(), PgError> {
        for call in calls.iter() {
            let values: Vec<_> =
                call.values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
            self.execute(call.sql, &values).await?;
        }
        Ok(())
    }

    /// Locks the owner's row and moves its ledger; fails if this process was marked dead. At the latest
    /// it happens before the commit.
    pub(super) async fn enter(&self) -> Result<(), PgError> {
        if !self.has_entered.replace(true) {
            let parameters: Parameters<'_> = &[&self.owner.id(), &self.known, &self.attempt];
            self.connection.execute(self.enter_sql, parameters).await?;
        }
        Ok(())
    }
}

type LocalFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + 'a>>;

/// A unit of work. It may be attempted more than once, each time in a transaction that contains nothing of
/// the earlier attempt.
trait Job: Send {
    fn attempt<'a>(&'a mut self, db: &'a Transaction<'a>) -> LocalFuture<'a, Result<(), PgError>>;
    fn send_reply(self: Box<Self>, commit: Result<(), StoreError>);
}

struct WriteJob<T, F> {
    work: F,
    result: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Job for WriteJob<T, F>
where
    T: Send,
    F: AsyncFn(&Transaction<'_>) -> Result<T, PgError> + Send,
{
    fn attempt<'a>(&'a mut self, db: &'a Transaction<'a>) -> LocalFuture<'a, Result<(), PgError>> {
        Box::pin(async move {
            self.result = Some((self.work)(db).await?);
            Ok(())
        })
    }

    fn send_reply(self: Box<Self>, commit: Result<(), StoreError>) {
        let answer = match (self.result, commit) {
            (_, Err(error)) => Err(error),
            (Some(value), Ok(())) => Ok(value),
            (None, Ok(())) => Err(closed_error()),
        };
        let _nobody_waits = self.reply.send(answer);
    }
}

enum AloneCommand {
    Job(Box<dyn Job>),
    /// Answered when every job before it has been committed.
    Close(oneshot::Sender<()>),
}

/// The sending side.
#[derive(Clone)]
pub(super) struct AloneQueue(mpsc::Sender<AloneCommand>);

/// The receiving side.
pub(super) struct AloneInbox(mpsc::Receiver<AloneCommand>);

pub(super) fn queue() -> (AloneQueue, AloneInbox) {
    let (sender, receiver) = mpsc::channel(MAX_QUEUED_JOBS);
    (AloneQueue(sender), AloneInbox(receiver))
}

impl AloneQueue {
    /// Queues a job. The returned [`PendingCommit`] resolves when the job is committed.
    pub(super) async fn queue(
        &self,
        work: impl AsyncFn(&Transaction<'_>) -> Result<(), PgError> + Send + 'static,
    ) -> Result<PendingCommit, StoreError> {
        let (reply, committed) = PendingCommit::new();
        self.send(work, reply).await?;
        Ok(committed)
    }

    /// Queues a job and waits for its commit.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl AsyncFn(&Transaction<'_>) -> Result<T, PgError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.send(work, reply).await?;
        answer.await.unwrap_or_else(|_writer_gone| Err(closed_error()))
    }

    async fn send<T: Send + 'static>(
        &self,
        work: impl AsyncFn(&Transaction<'_>) -> Result<T, PgError> + Send + 'static,
        reply: oneshot::Sender<Result<T, StoreError>>,
    ) -> Result<(), StoreError> {
        let job = Box::new(WriteJob { work, result: None, reply });
        self.0.send(AloneCommand::Job(job)).await.map_err(|_closed| closed_error())
    }

    pub(super) async fn close(&self) {
        let (reply, closed) = oneshot::channel();
        if self.0.send(AloneCommand::Close(reply)).await.is_ok() {
            let _writer_gone = closed.await;
        }
    }
}

/// Commits jobs until the store is closed or dropped. Returns who waits for the end.
pub(super) async fn run(
    mut link: WriteLink,
    AloneInbox(mut inbox): AloneInbox,
) -> Vec<oneshot::Sender<()>> {
    debug_assert_eq!(link.ledger.column, LedgerColumn::Single);
    let mut closers = Vec::new();
    while let Some(command) = inbox.recv().await {
        match command {
            AloneCommand::Job(mut job) => {
                let outcome = commit(&mut link, job.as_mut()).await;
                job.send_reply(outcome);
            }
            AloneCommand::Close(reply) => {
                closers.push(reply);
                // No new jobs are accepted, but those in the queue are still written.
                inbox.close();
            }
        }
    }
    closers
}

/// What became of a transaction.
enum Attempt {
    Committed,
    RolledBack(PgError),
    /// The connection was lost before the commit was sent.
    Unsent,
    /// The connection was lost after that.
    AnswerLost,
}

async fn commit(link: &mut WriteLink, job: &mut dyn Job) -> Result<(), StoreError> {
    let since = Instant::now();
    let mut in_doubt = None;
    let mut collisions = 0;
    loop {
        let settled = link.ready().await?;
        if settled.is_some() && settled == in_doubt {
            return Ok(());
        }
        let attempt = link.ledger.next();
        match try_once(link, job, attempt).await {
            Attempt::Committed => {
                link.ledger.note_commit(attempt);
                return Ok(());
            }
            Attempt::AnswerLost => {
                tracing::info!("the answer to a commit was lost; looking it up");
                in_doubt = Some(attempt);
                link.ledger.note_lost_answer(attempt);
                link.drop_connection();
                link.give_up_after(since)?;
            }
            Attempt::Unsent => {
                link.drop_connection();
                link.give_up_after(since)?;
            }
            Attempt::RolledBack(error) => {
                let Some(connection) = link.connection() else { return Err(closed_error()) };
                if connection.client().batch_execute("ROLLBACK").await.is_err() {
                    link.drop_connection();
                }
                if error.trouble() == Trouble::Collision && collisions < MAX_COLLISIONS {
                    collisions += 1;
                } else if error.is_fence() {
                    return Err(link.explain_fence().await);
                } else {
                    return Err(error.into_store_error(&link.context.address));
                }
            }
        }
    }
}

async fn try_once(link: &WriteLink, job: &mut dyn Job, attempt: i64) -> Attempt {
    let (Some(connection), Some(owner)) = (link.connection(), link.context.owner.get()) else {
        return Attempt::Unsent;
    };
    let db = Transaction {
        connection,
        owner,
        machine: &link.context.machine,
        enter_sql: link.ledger.column.enter_sql(),
        known: link.ledger.known(),
        attempt,
        has_entered: Cell::new(false),
    };
    let worked = async {
        connection.client().batch_execute("BEGIN").await?;
        job.attempt(&db).await?;
        db.enter().await
    };
    match worked.await {
        Ok(()) => {}
        Err(error) if error.trouble() == Trouble::Connection => return Attempt::Unsent,
        Err(error) => return Attempt::RolledBack(error),
    }
    match connection.client().batch_execute("COMMIT").await.map_err(PgError::from) {
        Ok(()) => Attempt::Committed,
        Err(error) if error.trouble() == Trouble::Connection => Attempt::AnswerLost,
        Err(error) => Attempt::RolledBack(error),
    }
}

impl fmt::Debug for AloneQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AloneQueue")
    }
}

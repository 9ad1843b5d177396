//! A connection that writes, made again when it is lost, with the ledger of its commits.

use std::{
    cell::RefCell,
    rc::Rc,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use angelia_core::{ports::StoreError, task::TaskGroup};
use tokio::sync::OnceCell;

use super::{
    PostgresAddress,
    connection::{ConnectError, PgConnection},
    error::{self, PgError, Trouble, closed_error},
    ledger::{CommitsLost, Ledger, LedgerColumn},
    owner_row::{Machine, RegisteredOwner},
};
use crate::store::writer_owner::WriterOwner;

/// A lost connection is tried again for so long before writes fail.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// What the connections of a store have in common.
#[derive(Debug)]
pub(super) struct LinkContext {
    pub(super) address: PostgresAddress,
    pub(super) machine: Machine,
    pub(super) writer_owner: WriterOwner,
    pub(super) owner: OnceCell<RegisteredOwner>,
    /// The id of that owner, for the callers of the store.
    pub(super) owner_id: Arc<OnceLock<Arc<str>>>,
    pub(super) tasks: TaskGroup,
    /// Set when the store is dropped: nobody waits for the outcome any more.
    pub(super) is_abandoned: Arc<AtomicBool>,
    /// Why nothing may be written any more.
    pub(super) broken: RefCell<Option<String>>,
}

impl LinkContext {
    /// Makes this process an owner, once.
    pub(super) async fn register(
        &self,
        connection: &PgConnection,
    ) -> Result<&RegisteredOwner, PgError> {
        let register = || RegisteredOwner::register(connection, &self.writer_owner, &self.machine);
        let owner = self.owner.get_or_try_init(register).await?;
        self.owner_id.get_or_init(|| owner.id().into());
        Ok(owner)
    }
}

pub(super) struct WriteLink {
    pub(super) context: Rc<LinkContext>,
    pub(super) ledger: Ledger,
    connection: Option<PgConnection>,
    /// Since when there has been no connection.
    down_since: Option<Instant>,
}

impl WriteLink {
    pub(super) fn new(
        context: Rc<LinkContext>,
        column: LedgerColumn,
        connection: Option<PgConnection>,
    ) -> Self {
        Self { context, ledger: Ledger::new(column), connection, down_since: None }
    }

    /// The connection, if there is one.
    pub(super) fn connection(&self) -> Option<&PgConnection> {
        self.connection.as_ref()
    }

    /// Notes that the connection is of no use.
    pub(super) fn drop_connection(&mut self) {
        self.connection = None;
        self.down_since.get_or_insert_with(Instant::now);
    }

    /// Makes sure that there is a connection, that this process is an owner, and that the ledger has no
    /// open question. Returns the attempt whose answer was lost and which was committed.
    pub(super) async fn ready(&mut self) -> Result<Option<i64>, StoreError> {
        let mut pause = FIRST_PAUSE;
        loop {
            if let Some(message) = self.context.broken.borrow().clone() {
                return Err(StoreError::Failed { message });
            }
            let is_abandoned = self.context.is_abandoned.load(Ordering::Relaxed);
            if is_abandoned && self.down_since.is_some() {
                return Err(closed_error());
            }
            let failure = match self.try_ready().await {
                Ok(settled) => {
                    self.down_since = None;
                    return Ok(settled);
                }
                Err(failure) => failure,
            };
            if !failure.is_temporary {
                return Err(failure.error);
            }
            self.drop_connection();
            let down_for = self.down_since.map_or(Duration::ZERO, |since| since.elapsed());
            if down_for > PATIENCE {
                return Err(failure.error);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn try_ready(&mut self) -> Result<Option<i64>, LinkFailure> {
        let address = &self.context.address;
        let connection = match self.connection.take().filter(|one| !one.client().is_closed()) {
            Some(connection) => connection,
            None => PgConnection::open(address, &self.context.tasks)
                .await
                .map_err(|error| LinkFailure::connecting(&error, address))?,
        };
        let connection = self.connection.insert(connection);
        let failed = |error: PgError| LinkFailure {
            is_temporary: error.trouble() != Trouble::Statement,
            error: error.into_store_error(address),
        };
        let owner = self.context.register(connection).await.map_err(failed)?;
        if !self.ledger.has_lost_answers() {
            return Ok(None);
        }
        // From here on no lost attempt can be committed any more.
        let (known, next) = (self.ledger.known(), self.ledger.next());
        self.ledger.note_lost_answer(next);
        let column = self.ledger.column;
        let moved = connection.execute(column.move_sql(), &[&owner.id(), &known, &next]).await;
        if moved.map_err(failed)? > 0 {
            self.ledger.note_commit(next);
            return Ok(None);
        }
        let found = read_column(connection, column, owner.id()).await.map_err(failed)?;
        let settled = found.map_or(Err(CommitsLost), |(found, _)| self.ledger.settle(found));
        settled.map_err(|CommitsLost| self.context.commits_lost().into())
    }

    /// Gives up on work that loses one connection after the other, and began at `since`.
    pub(super) fn give_up_after(&self, since: Instant) -> Result<(), StoreError> {
        if since.elapsed() < 2 * PATIENCE {
            return Ok(());
        }
        let message = format!(
            "the connection to {} is lost again and again; the log of the server says why",
            self.context.address
        );
        Err(StoreError::Failed { message })
    }

    /// Explains why the owner's row could not be entered.
    pub(super) async fn explain_fence(&self) -> StoreError {
        let (Some(connection), Some(owner)) = (self.connection(), self.context.owner.get()) else {
            return closed_error();
        };
        match read_column(connection, self.ledger.column, owner.id()).await {
            // Another process has taken over what this one had.
            Ok(Some((_, true))) => StoreError::LeaseLost,
            Ok(_) => self.context.commits_lost(),
            Err(error) => error.into_store_error(&self.context.address),
        }
    }
}

impl LinkContext {
    /// Ends all writing: what was acknowledged is not there.
    fn commits_lost(&self) -> StoreError {
        let message = format!(
            "{} has lost what it had confirmed, as after a failover to a standby that was behind; \
             nothing more is written. Check the server, then start angelia again",
            self.address
        );
        tracing::error!("{message}");
        *self.broken.borrow_mut() = Some(message.clone());
        StoreError::Failed { message }
    }
}

async fn read_column(
    connection: &PgConnection,
    column: LedgerColumn,
    owner: &str,
) -> Result<Option<(i64, bool)>, PgError> {
    let rows = connection.query(column.read_sql(), &[&owner]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some((row.try_get(0)?, row.try_get(1)?)))
}

/// Why there is no connection to write with.
struct LinkFailure {
    error: StoreError,
    /// The same may work in a moment.
    is_temporary: bool,
}

impl From<StoreError> for LinkFailure {
    fn from(error: StoreError) -> Self {
        Self { error, is_temporary: false }
    }
}

impl LinkFailure {
    fn connecting(error: &ConnectError, address: &PostgresAddress) -> Self {
        let is_temporary = match error {
            ConnectError::TimedOut => true,
            ConnectError::Sql(error) => is_worth_waiting(error),
        };
        let message = describe_connect_error(error, address);
        Self { error: StoreError::Failed { message }, is_temporary }
    }
}

/// Whether a server that cannot be reached now may be reached in a moment. A refused password cannot.
pub(super) fn is_worth_waiting(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_none() || error::trouble(error) == Trouble::Connection
}

pub(super) fn describe_connect_error(error: &ConnectError, address: &PostgresAddress) -> String {
    match error {
        ConnectError::Sql(error) => error::describe(error, address),
        ConnectError::TimedOut => format!(
            "cannot reach {address}: it does not answer; check that the server runs and that its \
             address in `fleet.store` is right"
        ),
    }
}

//! Opens the database: connects, brings the schema up to date, and starts the thread that all
//! connections live on.

use std::{
    cell::RefCell,
    convert::Infallible,
    io,
    rc::Rc,
    sync::{Arc, OnceLock, atomic::AtomicBool, mpsc as blocking},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use angelia_core::{ports::StoreError, task::TaskGroup};
use tokio::sync::{OnceCell, mpsc};
use tokio_postgres::error::SqlState;

use super::{
    PostgresAddress,
    alone::{self, AloneInbox},
    connection::{ConnectError, PgConnection},
    error,
    groups::{self, GroupInbox},
    ledger::LedgerColumn,
    link::{LinkContext, PATIENCE, WriteLink, describe_connect_error},
    migrations::{self, MigrateError},
    owner_row::{self, Machine},
    readers::ConnectRequest,
};
use crate::store::writer_owner::WriterOwner;

#[derive(Debug, thiserror::Error)]
pub enum OpenPostgresError {
    #[error("{message}")]
    Failed { message: String },
    #[error(
        "{place} was written by a newer angelia (its schema is {found}, this version knows up to \
         {known}); upgrade this machine"
    )]
    Newer { place: String, found: i64, known: i64 },
    #[error(
        "{place} has `synchronous_commit = off`: it confirms what a crash can still lose; \
         set it to `on` on the server, for the database or for the user"
    )]
    NotSynchronous { place: String },
    #[error("could not start the thread for {place}: {source}")]
    Thread { place: String, source: io::Error },
}

impl From<StoreError> for OpenPostgresError {
    fn from(error: StoreError) -> Self {
        Self::Failed { message: error.to_string() }
    }
}

/// What the thread needs.
pub(super) struct Setup {
    pub(super) address: PostgresAddress,
    pub(super) machine: Machine,
    pub(super) writer_owner: WriterOwner,
    pub(super) groups: GroupInbox,
    pub(super) alone: AloneInbox,
    pub(super) requests: mpsc::Receiver<ConnectRequest>,
    pub(super) owner_id: Arc<OnceLock<Arc<str>>>,
    pub(super) is_abandoned: Arc<AtomicBool>,
}

/// Starts the thread, and waits until the database is open.
pub(super) fn start(setup: Setup) -> Result<JoinHandle<()>, OpenPostgresError> {
    let place = setup.address.to_string();
    let (opened, opening) = blocking::sync_channel(1);
    let thread = thread::Builder::new()
        .name("store-postgres".to_owned())
        .spawn(move || run(setup, &opened))
        .map_err(|source| OpenPostgresError::Thread { place: place.clone(), source })?;
    let ended = || OpenPostgresError::Failed { message: format!("{place}: its thread has ended") };
    opening.recv().map_err(|_ended| ended())??;
    Ok(thread)
}

type Opened = Result<(), OpenPostgresError>;

fn run(setup: Setup, opened: &blocking::SyncSender<Opened>) {
    let place = setup.address.to_string();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(source) => {
            let _nobody_waits = opened.send(Err(OpenPostgresError::Thread { place, source }));
            return;
        }
    };
    runtime.block_on(drive(setup, opened));
}

async fn drive(setup: Setup, opened: &blocking::SyncSender<Opened>) {
    let Setup { address, machine, writer_owner, groups, alone, requests, owner_id, is_abandoned } =
        setup;
    let context = Rc::new(LinkContext {
        address,
        machine,
        writer_owner,
        owner: OnceCell::new(),
        owner_id,
        tasks: TaskGroup::new(),
        is_abandoned,
        broken: RefCell::default(),
    });
    let connection = match open(&context).await {
        Ok(connection) => connection,
        Err(error) => {
            let _nobody_waits = opened.send(Err(error));
            return;
        }
    };
    let _nobody_waits = opened.send(Ok(()));
    let link = |column, connection| WriteLink::new(Rc::clone(&context), column, connection);
    let writers = async {
        tokio::join!(
            groups::run(link(LedgerColumn::Batch, Some(connection)), groups),
            alone::run(link(LedgerColumn::Single, None), alone),
        )
    };
    let ((of_groups, mut closers), more) = tokio::select! {
        ended = writers => ended,
        never = connect_readers(&context, requests) => match never {},
    };
    closers.extend(more);
    // A store that was closed says so; one that was dropped leaves its row as a killed process would.
    if let (false, Some(connection), Some(owner)) =
        (closers.is_empty(), of_groups.connection(), context.owner.get())
        && let Err(error) = owner_row::mark_dead(connection, owner.id(), &context.machine).await
    {
        tracing::debug!(?error, "could not sign off");
    }
    drop(of_groups);
    context.tasks.shutdown(Duration::from_secs(1)).await;
    // The lock file goes before anybody is told that the store is closed.
    drop(context);
    for reply in closers {
        let _nobody_waits = reply.send(());
    }
}

/// Makes the connections of the readers, as long as somebody writes.
async fn connect_readers(
    context: &LinkContext,
    mut requests: mpsc::Receiver<ConnectRequest>,
) -> Infallible {
    while let Some(reply) = requests.recv().await {
        let (address, tasks) = (context.address.clone(), context.tasks.clone());
        context.tasks.spawn(async move {
            let connected = PgConnection::open(&address, &tasks).await;
            let _nobody_waits = reply.send(connected);
        });
    }
    std::future::pending().await
}

/// Opens the first connection, and checks what the store relies on.
async fn open(context: &LinkContext) -> Result<PgConnection, OpenPostgresError> {
    let address = &context.address;
    let connection = connect(context).await?;
    let failed = |error: &tokio_postgres::Error| OpenPostgresError::Failed {
        message: error::describe(error, address),
    };
    let setting = "SHOW synchronous_commit";
    let setting = connection.client().query_one(setting, &[]).await.map_err(|e| failed(&e))?;
    let setting: String = setting.try_get(0).map_err(|error| failed(&error))?;
    if setting == "off" {
        return Err(OpenPostgresError::NotSynchronous { place: address.to_string() });
    }
    migrations::run(&connection).await.map_err(|error| match error {
        MigrateError::Sql(error) => failed(&error),
        MigrateError::Newer { found } => OpenPostgresError::Newer {
            place: address.to_string(),
            found,
            known: migrations::latest_version(),
        },
    })?;
    if let WriterOwner::Registered(_) = context.writer_owner {
        let registered = context.register(&connection).await;
        registered.map_err(|error| error.into_store_error(address))?;
    }
    Ok(connection)
}

/// Connects. A server that is just starting is waited for; one that is not there is not.
async fn connect(context: &LinkContext) -> Result<PgConnection, OpenPostgresError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let error = match PgConnection::open(&context.address, &context.tasks).await {
            Ok(connection) => return Ok(connection),
            Err(error) => error,
        };
        let is_starting = matches!(
            &error,
            ConnectError::Sql(error) if error.code() == Some(&SqlState::CANNOT_CONNECT_NOW)
        );
        if !is_starting || Instant::now() > deadline {
            let message = describe_connect_error(&error, &context.address);
            return Err(OpenPostgresError::Failed { message });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

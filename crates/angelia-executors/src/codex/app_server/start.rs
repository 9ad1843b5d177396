//! Starts an app-server process and performs the `initialize` handshake.

use std::{
    fs,
    os::unix::fs::DirBuilderExt as _,
    sync::{Arc, OnceLock, atomic::AtomicBool},
    time::Duration,
};

use angelia_core::model::{Failure, FailureKind};
use angelia_wire::jsonrpc::{Peer, VersionField};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};

use super::{
    super::{
        calls::{self, ConfigRead},
        launch::{AppServerSpec, codex_home},
        protocol::outgoing::{AccountRead, ClientInfo, Initialize, InitializeCapabilities},
        start_lock::StartLock,
    },
    ActorCommand, AppServer, AppServerShared, COMMAND_QUEUE_CAPACITY, CodexCallError, ProcessState,
    actor::AppServerActor,
    routes::ThreadRoutes,
};
use crate::{host::ExecutorHost, process::spawn, process_link::ProcessLink};

/// How long a process may take to complete the handshake.
const START_LIMIT: Duration = Duration::from_mins(1);

const UNUSED_GRACE: Duration = Duration::from_secs(2);

impl AppServer {
    pub(in super::super) async fn start(
        host: &ExecutorHost,
        shape: &AppServerSpec,
    ) -> Result<Self, Failure> {
        let mark = host.fresh_mark()?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&host.work_dir).map_err(
            |error| {
                let folder = host.work_dir.display();
                let message = format!("cannot create the folder {folder}: {error}");
                Failure::new(FailureKind::Unavailable, message)
                    .with_hint("check its permissions and the space on the disk")
            },
        )?;
        let alone = StartLock::acquire(host, codex_home(shape.base_environment())).await;
        let launch = shape.launch(host, mark);
        let child = spawn(&launch)
            .await
            .map_err(|error| Failure::new(FailureKind::Unavailable, error.to_string()))?;
        tracing::debug!(pid = child.pid(), "app-server started");
        let (commands, receiver) = mpsc::channel(COMMAND_QUEUE_CAPACITY);
        let (life_sender, life) = watch::channel(ProcessState::Running);
        let (fault_sender, fault) = watch::channel(None);
        let draining = Arc::new(AtomicBool::new(false));
        let actor = AppServerActor {
            link: ProcessLink::new(child, host.wire_log.as_ref()),
            commands: receiver,
            state: life_sender,
            draining: Arc::clone(&draining),
            config_fault: fault_sender,
            redactor: host.redactor.clone(),
            stop: host.tasks.stop_token().clone(),
            peer: Peer::new(VersionField::Omit),
            routes: ThreadRoutes::default(),
        };
        host.tasks.spawn(actor.run());
        let server = Self {
            shared: Arc::new(AppServerShared {
                commands,
                state: life,
                draining,
                config_fault: fault,
                user_mcp_servers: OnceLock::new(),
            }),
        };
        let failure = match timeout(START_LIMIT, server.handshake()).await {
            Ok(Ok(())) => {
                if let Some(lock) = alone {
                    server.refresh_login(&lock, host).await;
                }
                return Ok(server);
            }
            Ok(Err(failure)) => failure,
            Err(_too_late) => {
                let message = format!("Codex did not answer within {START_LIMIT:?}");
                Failure::new(FailureKind::Timeout, message)
                    .with_hint("run `codex` by hand to see what it waits for")
            }
        };
        server.close(UNUSED_GRACE).await;
        Err(failure)
    }

    /// Performs the handshake, and checks that Codex uses the configuration that it was given.
    async fn handshake(&self) -> Result<(), Failure> {
        let initialize = Initialize {
            client_info: ClientInfo {
                name: "angelia",
                title: "Angelia",
                version: env!("CARGO_PKG_VERSION"),
            },
            capabilities: InitializeCapabilities {
                experimental_api: true,
                opt_out_notification_methods: &[],
            },
        };
        if let Err(error) = self.call(&initialize).await {
            return Err(self.start_failure(error).await);
        }
        let initialized = ActorCommand::Notify("initialized");
        let _ended = self.shared.commands.send(initialized).await;
        // Warnings about the configuration arrive before this response. Any response will do, even
        // a refusal.
        if let Err(error @ CodexCallError::Gone) = self.call(&AccountRead::default()).await {
            return Err(self.start_failure(error).await);
        }
        if let Some(fault) = self.config_failure() {
            return Err(fault);
        }
        if let Ok(config) = self.call(&ConfigRead {}).await {
            let names = calls::mcp_server_names(&config);
            let _first = self.shared.user_mcp_servers.set(names);
        }
        Ok(())
    }

    /// Refreshes the login if the process has not already done so.
    async fn refresh_login(&self, lock: &StartLock, host: &ExecutorHost) {
        if lock.is_login_due(host.clock.now())
            && let Err(error) = self.call(&AccountRead { refresh_token: true }).await
        {
            tracing::debug!(%error, "the login was not refreshed");
        }
    }

    async fn start_failure(&self, error: CodexCallError) -> Failure {
        if !matches!(error, CodexCallError::Gone) {
            return error.to_failure("start");
        }
        let why = self.exit_reason().await;
        Failure::new(FailureKind::Agent, format!("Codex ended while it was starting: {why}"))
            .with_hint("`angelia doctor` shows what is installed; run `codex` by hand to see more")
    }
}

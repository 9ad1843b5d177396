//! Starts an app-server process and performs the `initialize` handshake.

use std::{
    collections::HashMap,
    fs,
    os::unix::fs::DirBuilderExt as _,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64},
    },
    time::Duration,
};

use angelia_core::model::{Failure, FailureKind};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};

use super::{
    super::{
        calls::{self, ConfigRead},
        launch::Shape,
        protocol::outgoing::{self, AccountRead, Capabilities, ClientInfo, Initialize},
    },
    COMMANDS, CallError, Command, Life, Server, Shared,
    actor::Actor,
    routes::Routes,
};
use crate::{
    host::Host,
    link::Link,
    process::{Launch, spawn},
};

/// How long a process may take to complete the handshake.
const START_LIMIT: Duration = Duration::from_mins(1);

const UNUSED_GRACE: Duration = Duration::from_secs(2);

impl Server {
    pub(in super::super) async fn start(host: &Host, shape: &Shape) -> Result<Self, Failure> {
        let mark = host.fresh_mark()?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&host.work_dir).map_err(
            |error| {
                let folder = host.work_dir.display();
                let message = format!("cannot create the folder {folder}: {error}");
                Failure::new(FailureKind::Unavailable, message)
                    .with_hint("check its permissions and the space on the disk")
            },
        )?;
        let launch = Launch {
            program: shape.program.clone(),
            args: shape.arguments(),
            cwd: host.work_dir.clone(),
            env: shape.environment(&mark),
            mark,
            ledger: host.ledger.clone(),
        };
        let child = spawn(&launch)
            .await
            .map_err(|error| Failure::new(FailureKind::Unavailable, error.to_string()))?;
        tracing::debug!(pid = child.pid(), "app-server started");
        let (commands, receiver) = mpsc::channel(COMMANDS);
        let (life_sender, life) = watch::channel(Life::Running);
        let (fault_sender, fault) = watch::channel(None);
        let ids = Arc::new(AtomicU64::new(1));
        let condemned = Arc::new(AtomicBool::new(false));
        let actor = Actor {
            link: Link::new(child),
            commands: receiver,
            ids: Arc::clone(&ids),
            life: life_sender,
            condemned: Arc::clone(&condemned),
            fault: fault_sender,
            redactor: host.redactor.clone(),
            stop: host.tasks.stop_token().clone(),
            calls: HashMap::new(),
            routes: Routes::default(),
        };
        host.tasks.spawn(actor.run());
        let server = Self {
            shared: Arc::new(Shared {
                commands,
                ids,
                life,
                condemned,
                fault,
                own_servers: OnceLock::new(),
            }),
        };
        let failure = match timeout(START_LIMIT, server.introduce()).await {
            Ok(Ok(())) => return Ok(server),
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

    /// Performs the handshake, and checks that Codex runs on the configuration it was given.
    async fn introduce(&self) -> Result<(), Failure> {
        let initialize = Initialize {
            client_info: ClientInfo {
                name: "angelia",
                title: "Angelia",
                version: env!("CARGO_PKG_VERSION"),
            },
            capabilities: Capabilities {
                experimental_api: true,
                opt_out_notification_methods: &[],
            },
        };
        if let Err(error) = self.call(&initialize).await {
            return Err(self.not_started(error).await);
        }
        let initialized = Command::Line(outgoing::initialized());
        let _ended = self.shared.commands.send(initialized).await;
        // Warnings about the configuration arrive before this response.
        // Any response will do here; a refusal does not matter either.
        if let Err(error @ CallError::Gone) = self.call(&AccountRead::default()).await {
            return Err(self.not_started(error).await);
        }
        if let Some(fault) = self.fault() {
            return Err(fault);
        }
        if let Ok(config) = self.call(&ConfigRead {}).await {
            let names = calls::server_names(&config);
            let _first = self.shared.own_servers.set(names);
        }
        Ok(())
    }

    async fn not_started(&self, error: CallError) -> Failure {
        let why = match error {
            CallError::Gone => self.last_words().await,
            other => other.to_string().into(),
        };
        let message = format!("Codex ended while it was starting: {why}");
        Failure::new(FailureKind::Agent, message)
            .with_hint("`angelia doctor` shows what is installed; run `codex` by hand to see more")
    }
}

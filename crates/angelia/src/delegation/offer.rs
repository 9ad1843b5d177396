//! Our own MCP server, added to agents that may delegate or that are reached over the bus. The
//! added server depends on the profile alone, because it is part of the launch fingerprint.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use angelia_core::{
    model::{EndpointName, Failure, Mode, SessionSpec, ToolPattern},
    ports::{BoxFuture, ProfileSummary, Profiles, Wanted},
};
use angelia_frontends::mcp::{OWN_TOOLS, SERVER};
use serde_json::{json, value::to_raw_value};

use crate::{assemble::App, profiles::ConfiguredProfiles};

/// Variables of our environment that the server needs to find the same bus.
const PASSED: [&str; 2] = ["HERMES_BUS_ROOT", "HERMES_HOME"];

/// Tells the server its endpoint name on the bus.
const ENDPOINT: &str = "HERMES_BUS_ENDPOINT";

/// The command and the environment that our own MCP server is started with.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    program: PathBuf,
    config: Option<PathBuf>,
    variables: BTreeMap<String, String>,
}

impl Offer {
    /// Returns `None` if the path of our own program or of the home is not known.
    pub(crate) fn new(app: &App) -> Option<Self> {
        let mut variables = BTreeMap::new();
        let home = app.home.dir().to_str()?.to_owned();
        variables.insert("ANGELIA_HOME".to_owned(), home);
        for name in PASSED {
            if let Some(value) = app.environment.non_empty(name).and_then(|it| it.to_str()) {
                variables.insert(name.to_owned(), value.to_owned());
            }
        }
        Some(Self {
            program: std::env::current_exe().ok()?,
            config: app.config_file.clone(),
            variables,
        })
    }

    /// Removes the server that [`Self::add_to`] has added. A server that the owner has configured
    /// under the same name stays.
    fn take_back(spec: &mut SessionSpec) {
        let own = |pattern: &ToolPattern| pattern.to_string() == OWN_TOOLS;
        if spec.permissions.allowed.iter().any(own) {
            spec.permissions.allowed.retain(|pattern| !own(pattern));
            spec.mcp_servers.remove(SERVER);
        }
    }

    /// Adds the server to an agent, unless the owner has configured one under the same name.
    pub(crate) fn give(&self, spec: &mut SessionSpec, endpoint: Option<&EndpointName>) {
        if spec.mode == Mode::Model || spec.mcp_servers.contains_key(SERVER) {
            return;
        }
        let mut args = vec!["mcp".to_owned(), "--profile".to_owned()];
        args.push(spec.profile.to_string());
        if let Some(config) = &self.config {
            args.push("--config".to_owned());
            args.push(config.display().to_string());
        }
        let mut variables = self.variables.clone();
        if let Some(endpoint) = endpoint {
            variables.insert(ENDPOINT.to_owned(), endpoint.to_string());
        }
        let server = json!({"command": self.program, "args": args, "env": variables});
        let Ok(server) = to_raw_value(&server) else {
            return;
        };
        spec.mcp_servers.insert(SERVER.into(), server.into());
        // Its tools only read, or do what this agent may do itself, so they need no approval.
        if let Ok(own) = OWN_TOOLS.parse() {
            spec.permissions.allowed.push(own);
        }
    }
}

/// The profiles for messages of the bus: their agents get our MCP server, to answer on the bus.
pub(crate) struct OnBus {
    profiles: Arc<ConfiguredProfiles>,
    offer: Option<Offer>,
    /// Our endpoint name on the bus, once we are attached.
    endpoint: Arc<Mutex<Option<EndpointName>>>,
}

impl OnBus {
    pub(crate) fn new(app: &App, profiles: Arc<ConfiguredProfiles>) -> Self {
        Self { profiles, offer: Offer::new(app), endpoint: Arc::default() }
    }

    /// Returns the shared name, for the task that attaches to the bus.
    pub(crate) fn endpoint(&self) -> Arc<Mutex<Option<EndpointName>>> {
        Arc::clone(&self.endpoint)
    }
}

impl Profiles for OnBus {
    fn spec(&self, wanted: Wanted) -> BoxFuture<'_, Result<SessionSpec, Failure>> {
        Box::pin(async move {
            let mut spec = self.profiles.spec(wanted).await?;
            let endpoint = self.endpoint.lock();
            let endpoint = endpoint.unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(offer) = &self.offer {
                // Added again, because the inner profiles added the server without the name.
                Offer::take_back(&mut spec);
                offer.give(&mut spec, endpoint.as_ref());
            }
            Ok(spec)
        })
    }

    fn list(&self) -> Vec<ProfileSummary> {
        self.profiles.list()
    }
}

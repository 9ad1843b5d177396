//! Our own MCP server, given to agents that may hand work on or are reached by the bus. What is
//! given depends on the profile alone: it is part of what makes two launches alike.

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

/// Variables of ours by which the server finds the bus as we do.
const PASSED: [&str; 2] = ["HERMES_BUS_ROOT", "HERMES_HOME"];

/// Tells the server what it is called on the bus.
const ENDPOINT: &str = "HERMES_BUS_ENDPOINT";

/// How our server is started.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    program: PathBuf,
    config: Option<PathBuf>,
    variables: BTreeMap<String, String>,
}

impl Offer {
    /// `None`: we cannot say where our own program is.
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

    /// Only what was given: a server that the owner has set up under the same name stays.
    fn take_back(spec: &mut SessionSpec) {
        let own = |pattern: &ToolPattern| pattern.to_string() == OWN_TOOLS;
        if spec.permissions.allowed.iter().any(own) {
            spec.permissions.allowed.retain(|pattern| !own(pattern));
            spec.mcp_servers.remove(SERVER);
        }
    }

    /// Gives the server to an agent. One of that name that the owner has set up stays.
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
        // Its tools only look, or do what this agent may do itself: they need no asking.
        if let Ok(own) = OWN_TOOLS.parse() {
            spec.permissions.allowed.push(own);
        }
    }
}

/// Profiles for messages of the bus: their agents can answer on it.
pub(crate) struct OnBus {
    profiles: Arc<ConfiguredProfiles>,
    offer: Option<Offer>,
    /// What we are called there, once we are.
    endpoint: Arc<Mutex<Option<EndpointName>>>,
}

impl OnBus {
    pub(crate) fn new(app: &App, profiles: Arc<ConfiguredProfiles>) -> Self {
        Self { profiles, offer: Offer::new(app), endpoint: Arc::default() }
    }

    /// Where to say what we are called.
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
                // Anew, with the name.
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

//! Our own MCP server, added to agents that may delegate or that are reached over the bus. Which
//! server is added depends only on the profile, because it is part of the launch fingerprint.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use angelia_core::{
    model::{EndpointName, Failure, Mode, SessionSpec, ToolPattern},
    ports::{BoxFuture, ProfileRequest, ProfileSummary, Profiles},
};
use angelia_frontends::mcp::{OWN_TOOLS_PATTERN, SERVER_NAME};
use serde_json::{json, value::to_raw_value};

use crate::{assemble::App, hosting::ENDPOINT_VARIABLE, profiles::ConfiguredProfiles};

/// Variables in our environment that the server needs to find the same bus.
const PASSED_VARIABLES: [&str; 2] = ["HERMES_BUS_ROOT", "HERMES_HOME"];

/// The command and the environment with which our own MCP server is started.
#[derive(Clone, Debug)]
pub(crate) struct OwnMcpServer {
    program: PathBuf,
    config_file: Option<PathBuf>,
    variables: BTreeMap<String, String>,
}

impl OwnMcpServer {
    /// Returns `None` if the path of our own program or of the home is unknown.
    pub(crate) fn new(app: &App) -> Option<Self> {
        let mut variables = BTreeMap::new();
        let home = app.home.dir().to_str()?.to_owned();
        variables.insert("ANGELIA_HOME".to_owned(), home);
        for name in PASSED_VARIABLES {
            if let Some(value) = app.environment.non_empty(name).and_then(|it| it.to_str()) {
                variables.insert(name.to_owned(), value.to_owned());
            }
        }
        Some(Self {
            program: std::env::current_exe().ok()?,
            config_file: app.config_file.clone(),
            variables,
        })
    }

    /// Removes the server that [`Self::add_to`] added. Keeps a server that the owner has configured
    /// under the same name.
    fn remove_from(spec: &mut SessionSpec) {
        let own = |pattern: &ToolPattern| pattern.to_string() == OWN_TOOLS_PATTERN;
        if spec.permissions.allowed.iter().any(own) {
            spec.permissions.allowed.retain(|pattern| !own(pattern));
            spec.mcp_servers.remove(SERVER_NAME);
        }
    }

    /// Adds the server to an agent, unless the owner has configured a server with the same name.
    pub(crate) fn add_to(&self, spec: &mut SessionSpec, endpoint: Option<&EndpointName>) {
        if spec.mode == Mode::Model || spec.mcp_servers.contains_key(SERVER_NAME) {
            return;
        }
        let mut args = vec!["mcp".to_owned(), "--profile".to_owned()];
        args.push(spec.profile.to_string());
        if let Some(config) = &self.config_file {
            args.push("--config".to_owned());
            args.push(config.display().to_string());
        }
        let mut variables = self.variables.clone();
        if let Some(endpoint) = endpoint {
            variables.insert(ENDPOINT_VARIABLE.to_owned(), endpoint.to_string());
        }
        let server = json!({"command": self.program, "args": args, "env": variables});
        let Ok(server) = to_raw_value(&server) else {
            return;
        };
        spec.mcp_servers.insert(SERVER_NAME.into(), server.into());
        // Its tools only read, or do what this agent may do itself, so they need no approval.
        if let Ok(own) = OWN_TOOLS_PATTERN.parse() {
            spec.permissions.allowed.push(own);
        }
    }
}

/// The profiles for bus messages: their agents get our MCP server, so that they can answer on the
/// bus.
pub(crate) struct BusProfiles {
    profiles: Arc<ConfiguredProfiles>,
    own_server: Option<OwnMcpServer>,
    /// Our endpoint name on the bus, once we are attached.
    endpoint: Arc<Mutex<Option<EndpointName>>>,
}

impl BusProfiles {
    pub(crate) fn new(app: &App, profiles: Arc<ConfiguredProfiles>) -> Self {
        Self { profiles, own_server: OwnMcpServer::new(app), endpoint: Arc::default() }
    }

    /// Returns the shared name, for the task that attaches to the bus.
    pub(crate) fn endpoint(&self) -> Arc<Mutex<Option<EndpointName>>> {
        Arc::clone(&self.endpoint)
    }
}

impl Profiles for BusProfiles {
    fn resolve(&self, wanted: ProfileRequest) -> BoxFuture<'_, Result<SessionSpec, Failure>> {
        Box::pin(async move {
            let mut spec = self.profiles.resolve(wanted).await?;
            let endpoint = self.endpoint.lock();
            let endpoint = endpoint.unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(offer) = &self.own_server {
                // Add the server again, because the inner profiles added it without the name.
                OwnMcpServer::remove_from(&mut spec);
                offer.add_to(&mut spec, endpoint.as_ref());
            }
            Ok(spec)
        })
    }

    fn list(&self) -> Vec<ProfileSummary> {
        self.profiles.list()
    }
}

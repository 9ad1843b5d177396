//! Loads the configuration: defaults ← file ← environment ← flags, read into types. Reports all
//! problems at once.

use std::{
    cell::RefCell, collections::BTreeMap, fmt, net::SocketAddr, path::Path, sync::Arc,
    time::Duration,
};

use angelia_core::{model::TokenPrice, ports::ProfileSummary, redact::may_be_secret};
use angelia_executors::EXECUTORS;
use angelia_frontends::http::CallerLimits;
use sha2::{Digest as _, Sha256};

use super::{
    environment::Environment,
    file,
    hermes::{self, BRIDGE_KEY},
    home::Home,
    node::{Node, ValueOrigin},
    plano,
    problem::{ConfigErrors, Problem, nearest},
    providers::settle_automatic_native,
    setting::{Setting as _, SettingsBlock as _, ValueCursor},
    types::{
        BridgeProfile, BusSettings, ConfigFile, DesktopNotifications, ExecutorName, Fleet, Hermes,
        Http, LogSettings, McpServer, Mode, Profile, ProfileName, ServerName, Sessions,
    },
};

/// The profile used when none is named.
pub(crate) const DEFAULT_PROFILE: &str = "default";

/// A valid configuration.
#[derive(Clone)]
pub(crate) struct Config {
    /// The typed settings, in which every profile is complete.
    pub(super) effective: ConfigFile,
    /// The values as set, with their origins. A value that is missing here has its default.
    pub(super) tree: Node,
    pub(super) profiles: BTreeMap<Arc<str>, ProfileEntry>,
    /// The executors that can run with only their own defaults, and these defaults.
    pub(super) targets: Vec<(ExecutorName, Profile)>,
    pub(super) default_profile: Arc<str>,
    warnings: Vec<Problem>,
}

/// A profile as it applies to each executor that it may use, the preferred one first.
#[derive(Clone, Debug)]
pub(crate) struct ProfileEntry {
    pub(super) candidates: Vec<(ExecutorName, Profile)>,
    pub(super) resume: bool,
}

impl ProfileEntry {
    /// Returns the executors that the profile may use.
    pub(super) fn executors(&self) -> Vec<ExecutorName> {
        self.candidates.iter().map(|(executor, _)| *executor).collect()
    }

    /// Returns the profile as it applies to one executor.
    pub(super) fn on(&self, executor: ExecutorName) -> Option<&Profile> {
        self.candidates.iter().find(|(name, _)| *name == executor).map(|(_, profile)| profile)
    }
}

impl Config {
    /// Loads the home's file, or the named one. A home without a file has the defaults. A flag is a
    /// pair of a key's path and a value.
    pub(crate) fn load(
        environment: &Environment,
        home: &Home,
        explicit_file: Option<&Path>,
        flags: &[(&str, &str)],
    ) -> Result<Self, ConfigErrors> {
        let mut tree = file::read(home, explicit_file)?;
        let problems = hermes::apply_variables(&mut tree, environment);
        plano::apply_variables(&mut tree, environment);
        for (path, value) in flags {
            let keys: Vec<&str> = path.split('.').collect();
            let name = keys.last().copied().unwrap_or_default().replace('_', "-");
            tree.set(&keys, Node::untyped(value, ValueOrigin::Flag(name.into())));
        }
        let problems = RefCell::new(problems);
        let file = ConfigFile::read(&ValueCursor::root(&tree, &problems));
        let mut problems = problems.into_inner();
        if let (Some(own), Some(block)) = (tree.at(["profiles", BRIDGE_KEY]), tree.get(BRIDGE_KEY))
            && !block.is_null()
        {
            let what = format!("is defined a second time, by {}; keep one of them", block.origin);
            problems.push(Problem::new(&own.origin, &format!("profiles.{BRIDGE_KEY}"), what));
        }
        match file {
            Some(file) if problems.is_empty() => {
                let warnings = hermes::warnings(&tree, environment);
                let config = Self::merge_defaults(file, tree, warnings);
                problems = config.find_problems(environment.home().as_deref());
                if problems.is_empty() {
                    return Ok(config);
                }
                Err(ConfigErrors(problems))
            }
            _ => {
                problems.sort_by_key(Problem::line);
                Err(ConfigErrors(problems))
            }
        }
    }

    /// Checks the settings that depend on each other.
    pub(super) fn find_problems(&self, home: Option<&Path>) -> Vec<Problem> {
        let mut problems = self.check_fallbacks();
        problems.extend(self.check_commands());
        problems.extend(self.check_delegates(home));
        problems.extend(self.check_reviews());
        problems.extend(self.check_providers(home));
        problems.extend(self.check_channels(home));
        problems.extend(self.check_fleet());
        problems
    }

    /// A fleet is its record.
    fn check_fleet(&self) -> Option<Problem> {
        self.fleet().filter(|fleet| fleet.store.is_none())?;
        let origin = &self.tree.get("fleet")?.origin;
        Some(Problem::new(origin, "fleet", "names no database; set `store`"))
    }

    /// Merges every profile with the defaults that it inherits. The parts are valid, so the result
    /// is too.
    fn merge_defaults(mut file: ConfigFile, mut tree: Node, warnings: Vec<Problem>) -> Self {
        let default_name = ProfileName(DEFAULT_PROFILE.into());
        file.profiles.entry(default_name).or_default();
        let executors = tree.get("executors").cloned().unwrap_or_else(Node::empty_map);
        let providers = file.providers.clone();
        let mut profiles = BTreeMap::new();
        for (ProfileName(name), profile) in &mut file.profiles {
            let own = tree.at(["profiles", &**name]).cloned();
            let default = Profile::default();
            let (complete, mut entry) =
                inherit_defaults(&executors, own, profile.executor, &default);
            settle_automatic_native(&providers, &mut entry);
            if let Some((node, complete)) = complete {
                tree.set(&["profiles", &**name], node);
                *profile = complete;
            }
            profiles.insert(Arc::clone(name), entry);
        }
        let mut default_profile = DEFAULT_PROFILE.into();
        if let Some(bridge) = &mut file.claude_code_bridge {
            let mut entry = merge_bridge_defaults(&executors, &mut tree, bridge);
            settle_automatic_native(&providers, &mut entry);
            profiles.insert(BRIDGE_KEY.into(), entry);
            if bridge.hermes.enabled {
                default_profile = BRIDGE_KEY.into();
            }
        }
        let targets = EXECUTORS.iter().filter_map(|executor| {
            let executor = ExecutorName::from_name(executor.name)?;
            let (_, entry) = inherit_defaults(&executors, None, executor, &Profile::default());
            entry.candidates.into_iter().next()
        });
        let targets = targets.collect();
        Self { effective: file, tree, profiles, targets, default_profile, warnings }
    }

    /// Returns the entry of an executor with its own defaults, for callers that name no profile.
    pub(super) fn executor_entry(&self, executor: &str, mode: Mode) -> Option<ProfileEntry> {
        let mut targets = self.targets.iter();
        let (executor, profile) = targets.find(|(name, _)| name.as_str() == executor)?;
        // A model id names a single model, and a key in `http.keys` allows only its own providers.
        let profile = Profile { mode, fallback: Vec::new(), ..profile.clone() };
        Some(ProfileEntry { candidates: vec![(*executor, profile)], resume: true })
    }

    /// Returns the configuration of an empty file.
    pub(crate) fn defaults() -> Self {
        Self::merge_defaults(ConfigFile::default(), Node::empty_map(), Vec::new())
    }

    /// Returns the effective settings, with the values of variables masked.
    pub(crate) fn to_json(&self) -> serde_json::Map<String, serde_json::Value> {
        match serde_json::to_value(&self.effective) {
            Ok(serde_json::Value::Object(settings)) => settings,
            _ => serde_json::Map::new(),
        }
    }

    /// Returns a profile as it applies to each executor that it may use.
    pub(super) fn candidates(&self, profile: &str) -> &[(ExecutorName, Profile)] {
        self.profiles.get(profile).map_or(&[], |entry| &entry.candidates)
    }

    /// Returns whether the owner chose the profile's executor rather than leaving it to `auto`.
    pub(crate) fn is_pinned(&self, profile: &str) -> bool {
        matches!(self.candidates(profile), [_])
    }

    /// Returns a profile as it applies to one executor.
    pub(super) fn profile_on(&self, profile: &str, executor: &str) -> Option<&Profile> {
        let mut candidates = self.candidates(profile).iter();
        candidates.find(|(name, _)| name.as_str() == executor).map(|(_, profile)| profile)
    }

    /// Returns the origin of a profile's key: the profile itself, or its executor's defaults.
    pub(super) fn key_origin(
        &self,
        profile: &str,
        executor: ExecutorName,
        key: &str,
    ) -> &ValueOrigin {
        let node = (self.tree.at(["profiles", profile, key]))
            .or_else(|| self.tree.at([profile, key]))
            .or_else(|| self.tree.at(["executors", executor.as_str(), key]));
        node.map_or(&self.tree.origin, |node| &node.origin)
    }

    /// Returns the message for a name that belongs to no profile, or `None` if the profile exists.
    pub(super) fn missing_profile(&self, name: &str) -> Option<String> {
        if self.profiles.contains_key(name) {
            return None;
        }
        let nearest = nearest(name, self.profile_names());
        let hint = nearest.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        Some(format!("names no profile: there is no `{name}`{hint}"))
    }

    pub(crate) fn listen(&self) -> SocketAddr {
        self.effective.listen.0
    }

    /// Returns how long a stopping daemon waits for running turns.
    pub(crate) fn drain(&self) -> Duration {
        self.effective.drain.duration()
    }

    /// Returns whether a person who is looking elsewhere is notified.
    pub(crate) const fn desktop_notifications(&self) -> DesktopNotifications {
        self.effective.desktop_notifications
    }

    pub(crate) const fn log(&self) -> &LogSettings {
        &self.effective.log
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.effective.sessions
    }

    /// Returns the block of a record on a server, if there is one.
    pub(crate) const fn fleet(&self) -> Option<&Fleet> {
        self.effective.fleet.as_ref()
    }

    pub(crate) const fn bus(&self) -> &BusSettings {
        &self.effective.bus
    }

    /// Returns the name of the daemon's endpoint, if the configuration sets one.
    pub(crate) fn named_endpoint(&self) -> Option<&str> {
        self.tree.at(["bus", "endpoint"]).map(|_set| self.effective.bus.endpoint.0.as_str())
    }

    pub(crate) const fn http(&self) -> &Http {
        &self.effective.http
    }

    pub(crate) fn caller_limits(&self) -> CallerLimits {
        let limits = &self.effective.limits;
        CallerLimits::new(limits.connections_per_caller.0 as usize, limits.bodies_bytes.to_usize())
    }

    /// Returns the owner's prices by model id.
    pub(crate) fn prices(&self) -> BTreeMap<Arc<str>, TokenPrice> {
        let prices = self.effective.prices.iter();
        prices.map(|(model, price)| (Arc::clone(&model.0), price.into())).collect()
    }

    /// Returns the limit on the output of one turn.
    pub(crate) fn output_bytes(&self) -> usize {
        self.effective.limits.output_bytes.to_usize()
    }

    pub(crate) fn mcp_servers(&self) -> &BTreeMap<ServerName, McpServer> {
        &self.effective.mcp_servers
    }

    /// Returns every value that the configuration passes to an agent and that may be a secret:
    /// those in `env` of profiles and executors, in the variables and headers of MCP servers, and
    /// in the headers of providers.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let targets = EXECUTORS.iter().flat_map(|executor| {
            let modes = [Mode::Agent, Mode::Model].into_iter();
            modes.filter_map(|mode| self.executor_entry(executor.name, mode))
        });
        let entries = self.profiles.values().cloned().chain(targets);
        let mut secrets: Vec<String> = Vec::new();
        for (_, profile) in entries.flat_map(|entry| entry.candidates) {
            secrets.extend(profile.env.values().map(|value| value.0.to_string()));
        }
        let headers = self.effective.providers.values().flat_map(|one| one.headers.values());
        secrets.extend(headers.map(|value| value.0.to_string()));
        secrets.extend(self.mcp_servers().values().flat_map(McpServer::secrets).map(str::to_owned));
        secrets.retain(|value| may_be_secret(value));
        secrets
    }

    /// Returns the profile for callers that name none.
    pub(crate) fn default_profile(&self) -> &str {
        &self.default_profile
    }

    pub(crate) fn profile_names(&self) -> impl Iterator<Item = &str> {
        self.profiles.keys().map(|name| &**name)
    }

    /// Summarizes each profile for lists. The executor is `auto` until it is chosen.
    pub(crate) fn summaries(&self) -> Vec<ProfileSummary> {
        let bridge = self.effective.claude_code_bridge.as_ref();
        let bridge = bridge.map(|bridge| (BRIDGE_KEY, &bridge.profile));
        let own = self.effective.profiles.iter();
        let own = own.map(|(name, profile)| (&*name.0, profile));
        let summary = |(name, profile): (&str, &Profile)| ProfileSummary {
            name: name.into(),
            executor: profile.executor.as_str().into(),
            mode: profile.mode.into(),
            model: profile.model.as_deref().map(Arc::from),
        };
        own.chain(bridge).map(summary).collect()
    }

    /// Returns the settings that come from variables: their paths and their texts.
    fn variables(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        // The address concerns only the daemon itself.
        self.tree.with_keys(|key| key != "listen").collect_variables("", &mut found);
        found
    }

    /// Returns whether any setting comes from a variable.
    pub(crate) fn has_variables(&self) -> bool {
        !self.variables().is_empty()
    }

    /// Returns a hash of the settings' sources: the path of the file, and the variables. Two
    /// processes with the same hash use the same settings, whatever the file contains.
    pub(crate) fn source_sha256(&self, file: &Path) -> String {
        let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        let mut hash = Sha256::new();
        hash.update(file.as_os_str().as_encoded_bytes());
        for (path, text) in self.variables() {
            for part in [path, text] {
                hash.update([0]);
                hash.update(part);
            }
        }
        format!("{:x}", hash.finalize())
    }

    /// Returns the warnings about a valid configuration.
    pub(crate) fn warnings(&self) -> &[Problem] {
        &self.warnings
    }
}

/// Prints no values, because some are secrets.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("profiles", &self.profiles.keys()).finish_non_exhaustive()
    }
}

/// Returns a profile for each executor that it may use and, if there is only one, also its complete
/// form.
fn inherit_defaults(
    executors: &Node,
    own: Option<Node>,
    executor: ExecutorName,
    default: &Profile,
) -> (Option<(Node, Profile)>, ProfileEntry) {
    let own = own.filter(|node| !node.is_null()).unwrap_or_else(Node::empty_map);
    let on = |candidate: ExecutorName| {
        let below = executors.get(candidate.as_str()).filter(|node| !node.is_null());
        let mut node = below.cloned().unwrap_or_else(Node::empty_map);
        node.overlay(own.clone());
        // The parts were read before, so ignore problems here.
        let problems = RefCell::default();
        let root = ValueCursor::root(&node, &problems);
        let mut profile = Profile::read_over(default.clone(), &root.as_profile(&node))
            .unwrap_or_else(|| default.clone());
        profile.executor = executor;
        (node, profile)
    };
    let candidates = executor.candidates();
    let complete = match candidates {
        [only] => Some(on(*only)),
        _ => None,
    };
    let candidates = candidates.iter().map(|name| (*name, on(*name).1)).collect();
    let entry = ProfileEntry { candidates, resume: true };
    (complete, entry)
}

fn merge_bridge_defaults(
    executors: &Node,
    tree: &mut Node,
    bridge: &mut BridgeProfile,
) -> ProfileEntry {
    let own = tree.get(BRIDGE_KEY).map(|block| block.with_keys(|key| !Hermes::KEYS.contains(&key)));
    let default = BridgeProfile::default().profile;
    let (complete, mut entry) = inherit_defaults(executors, own, bridge.profile.executor, &default);
    if let Some((node, complete)) = complete {
        tree.set(&[BRIDGE_KEY], node);
        bridge.profile = complete;
    }
    entry.resume = bridge.hermes.resume_claude_sessions;
    entry
}

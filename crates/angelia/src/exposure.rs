//! Reports the daemon's exposure to people other than its owner. Each kind of exposure is logged at
//! startup, and as a warning when it is new, even while the daemon runs. The reported kinds are
//! stored in the home.

use std::{collections::BTreeSet, fmt, fs, net::SocketAddr};

use crate::{
    assemble::App,
    cli::error::{CommandError, Exit},
    config::{Config, Home},
};

/// One kind of exposure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ExposureKind {
    /// Holders of a key can use the agents' models.
    Models,
    /// Holders of a key can let agents act on this machine.
    Agents,
    /// The port can be reached from other machines.
    Network,
}

impl ExposureKind {
    const ALL: [Self; 3] = [Self::Models, Self::Agents, Self::Network];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Models => "models",
            Self::Agents => "agents",
            Self::Network => "network",
        }
    }
}

#[derive(Debug)]
struct Exposure {
    kind: ExposureKind,
    text: String,
}

impl fmt::Display for Exposure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Refuses an address that other machines can reach, unless keys limit what they may use.
pub(crate) fn check(app: &App, address: SocketAddr) -> Result<(), CommandError> {
    if address.ip().is_loopback() || !app.config.http().keys.is_empty() {
        return Ok(());
    }
    let message = format!(
        "{address} can be reached from other machines, and there are no keys: every caller would \
         need your own token"
    );
    let hint = "make a key with `angelia keys add NAME`, or listen on 127.0.0.1; what is sent is \
                not encrypted, so put a TLS proxy in front";
    Err(CommandError::new(Exit::Config, message).with_hint(hint))
}

/// Logs all exposures at startup. Returns the new ones.
pub(crate) fn announce(app: &App, address: SocketAddr) -> Vec<String> {
    let new = announce_new(&app.home, &app.config, address);
    for known in current_exposures(&app.config, address) {
        if !new.contains(&known.text) {
            tracing::info!("{known}");
        }
    }
    new
}

/// Logs the new exposures and returns them.
pub(crate) fn announce_new(home: &Home, config: &Config, address: SocketAddr) -> Vec<String> {
    let exposed = current_exposures(config, address);
    let path = home.run_dir().join("exposed");
    let known = fs::read_to_string(&path).unwrap_or_default();
    let known: BTreeSet<&str> = known.lines().collect();
    let mut new = Vec::new();
    for one in exposed.iter().filter(|one| !known.contains(one.kind.as_str())) {
        tracing::warn!("{one}");
        new.push(one.to_string());
    }
    // Only the current kinds are stored, so one that was off for a while counts as new again.
    let now = exposed.iter().map(|one| one.kind.as_str());
    let now: Vec<&str> = now.collect();
    if let Err(error) = fs::write(&path, now.join("\n") + "\n") {
        tracing::debug!(%error, "cannot record what is exposed");
    }
    new
}

fn current_exposures(config: &Config, address: SocketAddr) -> Vec<Exposure> {
    let http = config.http();
    let names = |only_agents: bool| {
        let keys = http.keys.iter().map(|key| &key.0);
        let keys = keys.filter(|key| !only_agents || key.agent_mode);
        keys.map(|key| format!("`{}`", key.name)).collect::<Vec<_>>()
    };
    let text = |kind| match kind {
        ExposureKind::Models if http.keys.is_empty() => None,
        ExposureKind::Models => Some(format!(
            "exposed: holders of the keys {} can use your agents' models over /v1, on your account",
            names(false).join(", ")
        )),
        ExposureKind::Agents if !http.agent_mode => None,
        ExposureKind::Agents => {
            let mut holders = names(true);
            holders.insert(0, "you with your token".to_owned());
            Some(format!(
                "exposed: over /v1, agents that read and change this machine as your user can be \
                 used by {} (http.agent_mode)",
                holders.join(", ")
            ))
        }
        ExposureKind::Network if address.ip().is_loopback() => None,
        ExposureKind::Network => Some(format!(
            "exposed: {address} can be reached from other machines, unencrypted; holders of a key \
             or of your token can use it from there"
        )),
    };
    ExposureKind::ALL
        .into_iter()
        .filter_map(|kind| text(kind).map(|text| Exposure { kind, text }))
        .collect()
}

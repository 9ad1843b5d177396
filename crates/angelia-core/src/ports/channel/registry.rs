//! The configured adapters, and how an address is resolved to one of them.

use std::{fmt, sync::Arc};

use super::{AddressError, Channel, ChannelAddress, home_variables};

type EnvLookup = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The configured adapters, and the environment that names the home channels.
pub struct ChannelRegistry {
    adapters: Vec<Arc<dyn Channel>>,
    env_lookup: EnvLookup,
}

/// An adapter and the chat to send to.
#[derive(Clone)]
pub struct ChannelTarget {
    pub adapter: Arc<dyn Channel>,
    pub chat: Arc<str>,
}

impl ChannelRegistry {
    /// Creates a registry. `variable` looks up an environment variable.
    pub fn new(
        adapters: Vec<Arc<dyn Channel>>,
        variable: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self { adapters, env_lookup: Box::new(variable) }
    }

    pub fn empty() -> Self {
        Self::new(Vec::new(), |_| None)
    }

    /// Returns the adapter of a platform.
    pub fn adapter(&self, platform: &str) -> Option<&Arc<dyn Channel>> {
        self.adapters.iter().find(|one| one.platform() == platform)
    }

    pub fn resolve(&self, address: &ChannelAddress) -> Result<ChannelTarget, AddressError> {
        let Some(adapter) = self.adapter(&address.platform) else {
            let known = self.adapters.iter().map(|one| one.platform().to_owned());
            return Err(AddressError::UnknownPlatform {
                name: address.platform.to_string(),
                known: known.collect(),
            });
        };
        let chat = match &address.chat {
            Some(chat) => Arc::clone(chat),
            None => self.home_chat(adapter.as_ref())?,
        };
        Ok(ChannelTarget { adapter: Arc::clone(adapter), chat })
    }

    fn home_chat(&self, adapter: &dyn Channel) -> Result<Arc<str>, AddressError> {
        let platform = adapter.platform();
        if !adapter.capabilities().home {
            return Err(AddressError::NoChat(platform.to_owned()));
        }
        let variables = home_variables(platform);
        let set = |name: &String| (self.env_lookup)(name).filter(|chat| !chat.is_empty());
        match variables.iter().find_map(set) {
            Some(chat) => Ok(chat.into()),
            None => Err(AddressError::NoHome {
                platform: platform.to_owned(),
                variable: variables[0].clone(),
            }),
        }
    }
}

impl fmt::Debug for ChannelRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let platforms = self.adapters.iter().map(|one| one.platform());
        f.debug_list().entries(platforms).finish()
    }
}

impl fmt::Debug for ChannelTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.adapter.platform(), self.chat)
    }
}

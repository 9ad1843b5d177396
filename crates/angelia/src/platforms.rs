//! The chat platforms that this program knows. A new platform is a row of [`PLATFORMS`]: its secrets, the words
//! that lead its owner to them, and how its adapter is built.

use std::{collections::BTreeMap, fmt, sync::Arc};

use angelia_core::ports::{Channel, Clock};
use angelia_frontends::chat::telegram::Telegram;

use crate::clock::SystemClock;

/// Every platform, by name.
pub(crate) const PLATFORMS: &[Platform] = &[TELEGRAM];

/// A chat platform.
pub(crate) struct Platform {
    /// The part of an address before the colon, and the key in `channels`.
    pub(crate) name: &'static str,
    pub(crate) secrets: &'static [PlatformSecret],
    /// The variable in which Hermes lists the people who may talk.
    pub(crate) allow_variable: &'static str,
    /// The steps to the secrets, for `channels add`.
    pub(crate) steps: &'static str,
    pub(crate) build: fn(&AdapterParts<'_>) -> Result<Arc<dyn Channel>, String>,
}

/// A value that the platform needs from its owner.
pub(crate) struct PlatformSecret {
    /// Its key in the configuration.
    pub(crate) key: &'static str,
    /// The variable that other programs use for it.
    pub(crate) variable: &'static str,
    /// What it is called when it is asked for.
    pub(crate) label: &'static str,
    pub(crate) is_optional: bool,
}

/// What an adapter is built from.
pub(crate) struct AdapterParts<'a> {
    /// The values of [`Platform::secrets`], by key.
    pub(crate) secrets: &'a BTreeMap<&'static str, String>,
    pub(crate) base_url: Option<&'a str>,
}

impl AdapterParts<'_> {
    /// Returns a secret that is not optional.
    pub(crate) fn secret(&self, key: &str) -> Result<&str, String> {
        let found = self.secrets.get(key).map(String::as_str);
        found.ok_or_else(|| format!("`{key}` is missing"))
    }

    #[expect(clippy::unused_self, reason = "an adapter gets everything from its parts")]
    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(SystemClock)
    }
}

/// Finds a platform by name.
pub(crate) fn find_platform(name: &str) -> Option<&'static Platform> {
    PLATFORMS.iter().find(|platform| platform.name == name)
}

/// Lists the names of the platforms, for errors.
pub(crate) fn platform_names() -> String {
    PLATFORMS.iter().map(|platform| platform.name).collect::<Vec<_>>().join(", ")
}

const TELEGRAM: Platform = Platform {
    name: "telegram",
    secrets: &[PlatformSecret {
        key: "token",
        variable: "TELEGRAM_BOT_TOKEN",
        label: "the bot's token",
        is_optional: false,
    }],
    allow_variable: "TELEGRAM_ALLOWED_USERS",
    steps: "1. In Telegram, write to @BotFather: /newbot, then a name and a user name for the bot.\n\
            2. It answers with a token such as 123456:ABC…; paste it here.\n\
            3. For groups: add the bot to the group, and its id to `groups` in config.yaml. The bot sees \
            commands, mentions and replies there; /setprivacy of @BotFather changes that.",
    build: |parts| {
        let bot = Telegram::new(parts.secret("token")?, parts.base_url, parts.clock());
        Ok(Arc::new(bot.map_err(|error| error.to_string())?))
    },
};

impl fmt::Debug for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

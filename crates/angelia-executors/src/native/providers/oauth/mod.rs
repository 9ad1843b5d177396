//! OAuth logins without a browser of our own (RFC 8628): a person confirms a code on a web page,
//! and the server issues a refresh token. The client id is the owner's; none is built in, so that
//! we never pose as another program. Providers and MCP servers both use these logins.
//!
//! - [`device_flow`]: the login itself.
//! - `discovery`: finds out where a server issues tokens.
//! - [`login_file`]: the refresh token of a login, which only one process uses at a time.

pub mod device_flow;
mod discovery;
pub mod login_file;

use std::{fmt, sync::Arc};

use self::login_file::LoginFile;
use super::{
    made_keys::MadeKey,
    token_request::{TokenReply, post_form},
};
use crate::ExecutorHost;

/// The owner's settings for a login.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OAuthSettings {
    pub target: LoginTarget,
    pub server: OAuthServer,
    pub client_id: Arc<str>,
    pub scope: Option<Arc<str>>,
}

/// The service that accepts the tokens of a login.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoginTarget {
    /// A provider of models, by its name.
    Provider(Arc<str>),
    McpServer {
        name: Arc<str>,
        /// Part of the settings, so that the tokens of a login are sent to no other address.
        url: Arc<str>,
    },
}

impl LoginTarget {
    /// Returns the command that logs in.
    pub fn login_command(&self) -> String {
        match self {
            Self::Provider(name) => format!("angelia providers login {name}"),
            Self::McpServer { name, .. } => format!("angelia mcp login {name}"),
        }
    }

    /// Names the block of the configuration that contains the settings.
    const fn block(&self) -> &'static str {
        match self {
            Self::Provider(_) => "the provider",
            Self::McpServer { .. } => "the MCP server",
        }
    }

    /// Returns the first part of the name of the login's file.
    fn file_stem(&self) -> String {
        match self {
            Self::Provider(name) => name.to_string(),
            Self::McpServer { name, .. } => format!("mcp-{name}"),
        }
    }
}

impl fmt::Display for LoginTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Provider(name) | Self::McpServer { name, .. }) = self;
        f.write_str(name)
    }
}

/// The server that issues tokens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OAuthServer {
    /// An issuer that publishes its addresses below this one.
    Issuer(Arc<str>),
    Addresses {
        device_url: Arc<str>,
        token_url: Arc<str>,
    },
    /// The MCP server names its issuer.
    NamedByTarget,
}

impl fmt::Display for OAuthServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Issuer(address) | Self::Addresses { token_url: address, .. } => {
                f.write_str(address)
            }
            Self::NamedByTarget => f.write_str("the server that it names"),
        }
    }
}

/// Gets an access token with the refresh token of a login. A refresh token may be usable only once,
/// so the next one is stored before any other process with this home can use the login.
pub(super) async fn refresh(
    settings: &OAuthSettings,
    host: &ExecutorHost,
) -> Result<MadeKey, String> {
    let file = LoginFile::of(settings, &host.logins_dir());
    let locked = file.lock().await?;
    let login = locked.read()?;
    host.redactor.add([&*login.refresh_token]);
    let mut form = vec![
        ("grant_type", "refresh_token"),
        ("refresh_token", &*login.refresh_token),
        ("client_id", &*settings.client_id),
    ];
    form.extend(login.resource.as_deref().map(|resource| ("resource", resource)));
    let reply = post_form(&login.token_url, &form).await?;
    if reply.error() == Some("invalid_grant") {
        locked.remove()?;
        let words = reply.complaint();
        return Err(format!("the login is no longer valid: {words}; {}", login_hint(settings)));
    }
    if !reply.is_success() {
        return Err(format!("the login could not be renewed: {}", reply.complaint()));
    }
    if let Some(next) = reply.body["refresh_token"].as_str() {
        host.redactor.add([next]);
        locked.write(&login_file::Login { refresh_token: next.to_owned(), ..login })?;
    }
    read_token(&reply, host)
}

fn read_token(reply: &TokenReply, host: &ExecutorHost) -> Result<MadeKey, String> {
    let token = MadeKey::from_json(&reply.body, host.clock.now());
    token.ok_or_else(|| "the server's answer has no access token".to_owned())
}

fn login_hint(settings: &OAuthSettings) -> String {
    format!("log in with `{}`", settings.target.login_command())
}

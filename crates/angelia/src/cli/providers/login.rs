//! Logs in to a provider and out again.

use angelia_executors::native::providers::{KeySource, OAuthSettings, Provider};

use super::find;
use crate::{
    assemble::{App, StandaloneHost},
    cli::{
        error::{CommandError, Exit},
        login,
    },
};

pub(super) async fn log_in(app: &App, name: &str) -> Result<Exit, CommandError> {
    let logins = logins(&*find(app, name)?)?;
    let standalone = StandaloneHost::start(app, "providers")?;
    login::log_in(&logins, standalone.host()).await
}

pub(super) async fn log_out(app: &App, name: &str) -> Result<Exit, CommandError> {
    let logins = logins(&*find(app, name)?)?;
    login::log_out(name, &logins, &app.home.logins_dir()).await
}

fn logins(provider: &Provider) -> Result<Vec<OAuthSettings>, CommandError> {
    let logins = provider.keys.iter().filter_map(|source| match source {
        KeySource::OAuth(settings) => Some(settings.clone()),
        KeySource::Env(_) | KeySource::File(_) | KeySource::Command(_) | KeySource::Entra(_) => {
            None
        }
    });
    let logins: Vec<_> = logins.collect();
    if logins.is_empty() {
        let message = format!("the provider `{}` has no key with `oauth`", provider.name);
        let hint = "write `keys: [{oauth: {issuer: …, client_id: …}}]` for it into config.yaml";
        return Err(CommandError::usage(message).with_hint(hint));
    }
    Ok(logins)
}

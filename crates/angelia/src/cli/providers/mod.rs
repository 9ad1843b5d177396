//! `angelia providers`: the model providers for `executor: native`.
//!
//! - [`list`]: the configured and the built-in providers.
//! - [`check`]: checks whether they can be used.
//! - [`login`]: logs in to a provider and out again.

mod check;
mod list;
mod login;

use std::sync::Arc;

use angelia_executors::native::providers::{Provider, ProviderCatalog};
use clap::Subcommand;

use super::error::{CommandError, Exit};
use crate::assemble::App;

#[derive(Debug, Subcommand)]
pub(crate) enum ProvidersCommand {
    /// List the model providers: address, key, and the models that the configuration names.
    List {
        /// Print JSON, one object per line.
        #[arg(long)]
        json: bool,
    },
    /// Check whether providers can be reached and accept the key, without using a model.
    Check {
        /// The provider; by default all that are configured or have a key.
        name: Option<String>,
        /// Print JSON, one object per line.
        #[arg(long)]
        json: bool,
    },
    /// Log in to a provider whose key is an `oauth` login: shows a code to confirm on another page.
    Login {
        /// The provider.
        name: String,
    },
    /// Forget the logins of a provider.
    Logout {
        /// The provider.
        name: String,
    },
}

pub(crate) async fn run(app: &App, command: &ProvidersCommand) -> Result<Exit, CommandError> {
    match command {
        ProvidersCommand::List { json } => list::run(app, *json),
        ProvidersCommand::Check { name, json } => check::run(app, name.as_deref(), *json).await,
        ProvidersCommand::Login { name } => login::log_in(app, name).await,
        ProvidersCommand::Logout { name } => login::log_out(app, name).await,
    }
}

/// Returns the models of a provider that the configuration names, in `providers` or in a profile.
fn named_models(app: &App, provider: &Provider) -> Vec<Arc<str>> {
    let mut models: Vec<Arc<str>> = provider.models.keys().cloned().collect();
    for model in app.config.native_models() {
        let own = model.strip_prefix(&*provider.name).and_then(|rest| rest.strip_prefix('/'));
        if let Some(id) = own.filter(|id| models.iter().all(|known| **known != **id)) {
            models.push(id.into());
        }
    }
    models
}

/// Finds a provider by name. The error lists the known ones.
fn find(app: &App, name: &str) -> Result<Arc<Provider>, CommandError> {
    let catalog = catalog(app);
    // The name alone stands for any of its models.
    let found = catalog.resolve(&format!("{name}/any")).map_err(|failure| {
        let error = CommandError::usage(failure.message.to_string());
        match failure.hint {
            Some(hint) => error.with_hint(hint.to_string()),
            None => error,
        }
    })?;
    Ok(found.0)
}

/// Returns the providers that this home knows.
fn catalog(app: &App) -> ProviderCatalog {
    let own = app.config.providers(app.environment.home().as_deref());
    ProviderCatalog::new(own, app.environment.variables())
}

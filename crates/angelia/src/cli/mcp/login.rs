//! Logs in to a configured MCP server and out again. `executor: native` uses the login; vendors' agents log
//! in themselves.

use angelia_core::model::SessionSpec;
use angelia_executors::{
    ExecutorHost,
    native::{mcp::check::login_of, providers::OAuthSettings},
};

use crate::{
    assemble::{App, StandaloneHost},
    cli::{
        doctor::all_specs,
        error::{CommandError, Exit},
        login,
    },
};

pub(super) async fn log_in(app: &App, name: &str) -> Result<Exit, CommandError> {
    let standalone = StandaloneHost::start(app, "mcp")?;
    let logins = logins(app, name, standalone.host())?;
    login::log_in(&logins, standalone.host()).await
}

pub(super) async fn log_out(app: &App, name: &str) -> Result<Exit, CommandError> {
    let standalone = StandaloneHost::start(app, "mcp")?;
    let logins = logins(app, name, standalone.host())?;
    login::log_out(name, &logins, &app.home.logins_dir()).await
}

/// Returns the logins of all servers with this name, because several profiles may define it differently.
fn logins(app: &App, name: &str, host: &ExecutorHost) -> Result<Vec<OAuthSettings>, CommandError> {
    let specs = all_specs(app);
    let mut logins = Vec::new();
    for spec in &specs {
        let login =
            login_of(name, spec, host).map_err(|words| CommandError::new(Exit::Config, words))?;
        logins.extend(login.filter(|login| !logins.contains(login)));
    }
    if logins.is_empty() {
        return Err(no_login(name, &specs));
    }
    Ok(logins)
}

fn no_login(name: &str, specs: &[SessionSpec]) -> CommandError {
    let mut names: Vec<&str> =
        specs.iter().flat_map(|spec| spec.mcp_servers.keys().map(|name| &**name)).collect();
    names.sort_unstable();
    names.dedup();
    if names.contains(&name) {
        let message = format!("the MCP server `{name}` has no `oauth` with a `client_id`");
        let hint = "write `oauth: {client_id: …}` for it into config.yaml; register a client at the \
                    server that issues its tokens";
        return CommandError::usage(message).with_hint(hint);
    }
    let hint = match names.as_slice() {
        [] => "write it into `mcp_servers` of config.yaml".to_owned(),
        _ => format!("known: {}", names.join(", ")),
    };
    CommandError::usage(format!("there is no MCP server `{name}`")).with_hint(hint)
}

//! `angelia dashboard`: opens the web page, signed in. The daemon creates a one-time code and puts
//! it into the fragment of the address, which no server or log ever sees.

use std::{path::Path, sync::Arc};

use angelia_executors::process::system_tool::start_tool;
use clap::Args;

use super::{
    error::{CommandError, Exit},
    lifecycle::start::{self, RunningDaemon},
    print,
};
use crate::{assemble::App, client::DaemonClient, config::Environment};

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct DashboardArgs {
    /// Print the address instead of opening it; it works once, for two minutes.
    #[arg(long)]
    no_open: bool,
}

pub(crate) async fn run(
    app: &Arc<App>,
    config: Option<&Path>,
    args: DashboardArgs,
) -> Result<Exit, CommandError> {
    if let RunningDaemon::Started { pid } = start::ensure_running(app, config).await? {
        print::note(&format!("started the daemon (process {pid}); `angelia stop` ends it"));
    }
    let Some(daemon) = DaemonClient::connect(&app.home.socket()).await else {
        return Err(CommandError::new(Exit::Unavailable, "the daemon does not answer")
            .with_hint("see `angelia logs`"));
    };
    let made = daemon.make_login_code().await?;
    if !args.no_open {
        if open_in_browser(&made.url, &app.environment) {
            let address = made.url.split("#code=").next().unwrap_or_default();
            print::note(&format!(
                "the dashboard opens in your browser: {address}\n\
                 if it does not: angelia dashboard --no-open"
            ));
            return Ok(Exit::Done);
        }
        let port = made.url.split('/').nth(2).and_then(|host| host.rsplit(':').next());
        let port = port.unwrap_or_default();
        print::note(&format!(
            "there is no browser here; open this address within two minutes. From another machine,\n\
             first run there: ssh -L {port}:127.0.0.1:{port} THIS-MACHINE"
        ));
    }
    print::line(&made.url)
}

/// Starts a browser and returns whether that worked. Does not wait for the browser: if this opens
/// its first window, it may run for days.
fn open_in_browser(url: &str, environment: &Environment) -> bool {
    let is_mac = cfg!(target_os = "macos");
    let has_desktop =
        ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| environment.non_empty(name).is_some());
    if !is_mac && !has_desktop {
        return false;
    }
    let opener = if is_mac { "open" } else { "xdg-open" };
    start_tool(opener, &[url.to_owned()], environment.iter()).is_ok()
}

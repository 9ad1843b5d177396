//! Model servers on this machine: their models become a provider and a profile in `config.yaml`. Unlike a
//! client, a server must answer before anything is shown or written.

use std::{os::unix::net::UnixStream, path::Path};

use angelia_executors::native::providers::{
    BuiltInProvider, Provider, ServedModel, check_address, list_models,
};
use clap::Args;

use super::{
    SetupChange,
    apply::ClientSetup,
    client::{Client, Connection, EditRefusal, FileState, quoted},
    config_entries::{ConfigEntry, with_entries},
};
use crate::{
    cli::{
        error::{CommandError, Exit},
        print,
        table::{Column, Table},
    },
    config::{Environment, Home},
};

/// A model server, and the texts for its setup. The client has the same name as the built-in provider.
pub(super) struct LocalServer {
    pub(super) client: Client,
    /// The server's name in sentences.
    pub(super) title: &'static str,
    /// How to start the server.
    pub(super) start: &'static str,
    /// How to fetch a model.
    pub(super) fetch: &'static str,
    /// Advice about the server's context windows.
    pub(super) window: &'static str,
}

#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    #[command(flatten)]
    pub(crate) change: SetupChange,

    /// The address of the server, if it is not the usual one.
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,

    /// The model of the profile; by default the first one that calls tools.
    #[arg(long, short, value_name = "MODEL")]
    pub(crate) model: Option<String>,
}

pub(super) fn run(
    server: &'static LocalServer,
    args: &ServerArgs,
    environment: &Environment,
    file: Option<&Path>,
) -> Result<Exit, CommandError> {
    let setup = ClientSetup::new(&server.client, environment, file, None)?;
    if args.change.undo {
        return setup.undo();
    }
    let provider = server.provider(args.url.as_deref())?;
    let models = server.ask(&provider)?;
    let chosen = server.choose(&models, args.model.as_deref())?;
    if !args.change.write {
        print::bytes(&models_table(&models, chosen, server.client.name).render())?;
        print::line("")?;
    }
    let calls_tools = chosen.tools != Some(false);
    let setup = setup.with_model(provider.base_url.to_string(), chosen.id.to_string(), calls_tools);
    let exit = if args.change.write { setup.write()? } else { setup.show()? };
    if !calls_tools {
        print::note(&format!("{} calls no tools: it can answer, but not work on files", chosen.id));
    }
    print::note(server.window);
    if args.change.write
        && UnixStream::connect(Home::from_environment(environment)?.socket()).is_ok()
    {
        print::note("`angelia config reload` gives it to the running daemon");
    }
    Ok(exit)
}

impl LocalServer {
    /// Returns the server as a provider, at its usual address or another one.
    fn provider(&self, url: Option<&str>) -> Result<Provider, CommandError> {
        let known = BuiltInProvider::find(self.client.name).and_then(BuiltInProvider::provider);
        let mut provider = known.ok_or_else(|| {
            CommandError::internal(format!("`{}` is no built-in provider", self.client.name))
        })?;
        if let Some(url) = url {
            check_address(url)
                .map_err(|error| CommandError::usage(format!("cannot use --url: {error}")))?;
            // People know the address of the server; the API is below it.
            let root = url.trim_end_matches('/');
            let root = root.strip_suffix("/v1").unwrap_or(root);
            provider.base_url = format!("{root}/v1").into();
        }
        Ok(provider)
    }

    fn ask(&self, provider: &Provider) -> Result<Vec<ServedModel>, CommandError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(CommandError::internal)?;
        let unavailable = |what: String| CommandError::new(Exit::Unavailable, what);
        let (title, address) = (self.title, &provider.base_url);
        let models = runtime.block_on(list_models(provider)).map_err(|reason| {
            unavailable(format!("{title} does not answer at {address}: {reason}"))
                .with_hint(format!("{}; `--url` names another address", self.start))
        })?;
        if models.is_empty() {
            let error = unavailable(format!("{title} at {address} has no model"));
            return Err(error.with_hint(self.fetch));
        }
        Ok(models)
    }

    fn choose<'m>(
        &self,
        models: &'m [ServedModel],
        wanted: Option<&str>,
    ) -> Result<&'m ServedModel, CommandError> {
        let fits = |model: &&ServedModel| match wanted {
            Some(wanted) => *model.id == *wanted,
            None => model.tools != Some(false),
        };
        // If no model calls tools, the first one can still answer.
        let any = models.first().filter(|_| wanted.is_none());
        models.iter().find(fits).or(any).ok_or_else(|| {
            let ids: Vec<&str> = models.iter().map(|model| &*model.id).collect();
            let wanted = wanted.unwrap_or_default();
            CommandError::usage(format!("{} has no model `{wanted}`", self.title))
                .with_hint(format!("it has: {}", ids.join(", ")))
        })
    }
}

/// Creates the client of a server. A macro, because the client's functions must know the name without
/// capturing it.
macro_rules! server_client {
    ($name:expr) => {
        $crate::cli::setup::client::Client {
            name: $name,
            has_key: false,
            files: |folders| {
                Ok(vec![$crate::cli::setup::client::ClientFile {
                    path: folders.config_file.clone(),
                    holds_key: false,
                    with: |file, connection| {
                        $crate::cli::setup::local_server::add_server(file, $name, connection)
                    },
                    without: |text| {
                        $crate::cli::setup::config_entries::without_entries(text, $name)
                    },
                }])
            },
            usage: |_| format!("angelia run -p {} \"hello\"", $name),
        }
    };
}

pub(super) use server_client;

/// Returns the configuration with the provider and the profile of a server.
pub(super) fn add_server(
    file: &FileState<'_>,
    name: &'static str,
    connection: &Connection,
) -> Result<String, EditRefusal> {
    let known = BuiltInProvider::find(name).and_then(|known| known.base_url);
    let mut provider = Vec::new();
    if known != Some(&*connection.url) {
        provider.push(format!("base_url: {}", quoted(&connection.url)));
    }
    let facts = if connection.calls_tools { "{}" } else { "{tools: false}" };
    provider.push("models:".to_owned());
    provider.push(format!("  {}: {facts}", quoted(&connection.model)));
    let model = quoted(&format!("{name}/{}", connection.model));
    let profile = vec!["executor: native".to_owned(), format!("model: {model}")];
    let entry = |block, lines| ConfigEntry { block, key: name, lines };
    with_entries(file, name, &[entry("providers", provider), entry("profiles", profile)])
}

/// Returns a table of the server's models that marks the one for the profile.
fn models_table(models: &[ServedModel], chosen: &ServedModel, profile: &str) -> Table<4> {
    let column = |header, rank| Column { header, min_width: None, rank };
    let columns =
        [column("MODEL", 0), column("WINDOW", 1), column("TOOLS", 2), column("PROFILE", 0)];
    let mut table = Table::new(columns);
    for model in models {
        let tools = match model.tools {
            Some(true) => "yes",
            Some(false) => "no",
            None => "unknown",
        };
        let window = model.context.map(|tokens| tokens.to_string());
        let profile = if model == chosen { profile } else { "" };
        table.push([
            model.id.to_string(),
            window.unwrap_or_else(|| "unknown".to_owned()),
            tools.to_owned(),
            profile.to_owned(),
        ]);
    }
    table
}

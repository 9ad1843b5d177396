//! Lists the providers.

use angelia_core::model::TokenPrice;
use angelia_executors::native::providers::{Provider, ProviderCatalog};
use serde::Serialize;

use super::{catalog, named_models};
use crate::{
    assemble::App,
    cli::{
        error::{CommandError, Exit},
        print,
        table::{Column, Table},
    },
};

#[derive(Debug, Serialize)]
struct ProviderEntry {
    name: String,
    api: &'static str,
    base_url: String,
    /// Whether the file names the provider, or its key exists.
    configured: bool,
    keys: Vec<KeyEntry>,
    models: Vec<ModelEntry>,
}

#[derive(Debug, Serialize)]
struct KeyEntry {
    source: String,
    /// `null` if finding out would require obtaining the key.
    set: Option<bool>,
}

#[derive(Debug, Serialize)]
struct ModelEntry {
    id: String,
    context: u64,
    /// The source of the window's size.
    context_source: &'static str,
    output: Option<u64>,
    price: Option<PriceEntry>,
}

/// US dollars per million tokens.
#[derive(Debug, Serialize)]
struct PriceEntry {
    input: f64,
    output: f64,
    cache_read: f64,
    cache_write: f64,
}

pub(super) fn run(app: &App, json: bool) -> Result<Exit, CommandError> {
    let catalog = catalog(app);
    let configured: Vec<_> = catalog.configured().collect();
    let entries = catalog.iter().map(|provider| {
        let is_configured = configured.iter().any(|one| one.name == provider.name);
        entry(app, &catalog, &provider, is_configured)
    });
    if json {
        let mut lines = Vec::new();
        for entry in entries {
            print::json_line(&entry, &mut lines)?;
        }
        return print::bytes(&lines);
    }
    print::bytes(&table(entries).render())
}

fn entry(
    app: &App,
    catalog: &ProviderCatalog,
    provider: &Provider,
    configured: bool,
) -> ProviderEntry {
    let variables = app.environment.variables();
    let logins = app.home.logins_dir();
    let keys = provider.keys.iter();
    let prices = app.config.prices();
    let model = |id: &str| {
        let window = catalog.window_of(provider, id);
        ModelEntry {
            id: id.to_owned(),
            context: window.context,
            context_source: window.source.as_str(),
            output: window.output,
            price: provider.price_of(id, &prices).map(Into::into),
        }
    };
    ProviderEntry {
        name: provider.name.to_string(),
        api: provider.api.as_str(),
        base_url: provider.base_url.to_string(),
        configured,
        keys: keys
            .map(|source| KeyEntry {
                source: source.to_string(),
                set: source.is_set(variables, &logins),
            })
            .collect(),
        models: named_models(app, provider).iter().map(|id| model(id)).collect(),
    }
}

impl From<TokenPrice> for PriceEntry {
    fn from(TokenPrice { input, output, cache_read, cache_write }: TokenPrice) -> Self {
        Self { input, output, cache_read, cache_write }
    }
}

fn table(entries: impl Iterator<Item = ProviderEntry>) -> Table<5> {
    let column = |header, min_width, rank| Column { header, min_width, rank };
    let mut table = Table::new([
        column("NAME", None, 0),
        column("API", None, 3),
        column("ADDRESS", Some(16), 2),
        column("KEY", Some(12), 1),
        column("MODELS", Some(12), 4),
    ]);
    for entry in entries {
        let models: Vec<String> = entry.models.iter().map(describe_model).collect();
        let key = describe_keys(&entry.keys);
        table.push([entry.name, entry.api.to_owned(), entry.base_url, key, models.join(", ")]);
    }
    table
}

fn describe_keys(keys: &[KeyEntry]) -> String {
    if keys.is_empty() {
        return "none needed".to_owned();
    }
    let one = |key: &KeyEntry| match key.set {
        Some(true) => format!("{} (set)", key.source),
        Some(false) => format!("{} (not set)", key.source),
        None => key.source.clone(),
    };
    let keys: Vec<String> = keys.iter().map(one).collect();
    keys.join(", ")
}

fn describe_model(model: &ModelEntry) -> String {
    let price = match &model.price {
        Some(price) => format!("${}/${}", price.input, price.output),
        None => "price unknown".to_owned(),
    };
    format!("{} ({} tokens, {price})", model.id, model.context)
}

//! The chats and webhooks that the daemon serves, and the queue of texts for channels.

use std::{collections::BTreeMap, sync::Arc};

use angelia_backends::{chats::SqliteChats, deliveries::SqliteDeliveries};
use angelia_core::{
    ports::{Bus, Channel, ChannelRegistry, ChatStore, Clock},
    task::TaskGroup,
};
use angelia_frontends::{
    chat::{
        ChatHost, ChatHostParts, DeliveryQueue, DeliveryQueueParts, RetryPolicy, webhook::Webhook,
    },
    hooks_in::{HookIn, HooksIn, HooksInParts},
    schedules::ResultDelivery,
};

use crate::{
    assemble::{App, LocalEngine},
    channels::{OpenChannels, read_secret},
    cli::error::{CommandError, Exit},
    clock::SystemClock,
    config::TemplateText,
    hosting::sender_endpoint,
};

/// Everything through which outside people and systems reach the agents, and texts reach people.
pub(crate) struct ChatDoors {
    pub(crate) delivery_queue: DeliveryQueue,
    pub(crate) chats: Option<ChatHost>,
    pub(crate) hooks: Option<HooksIn>,
}

impl ChatDoors {
    /// Opens the chats and webhooks. The lost turns of earlier processes must have been closed before.
    pub(crate) async fn open(
        app: &App,
        local: &LocalEngine,
        bus: Option<Arc<dyn Bus>>,
        tasks: &TaskGroup,
    ) -> Result<Self, CommandError> {
        let channels = OpenChannels::open(app, &local.commands, tasks).await;
        local.redactor.add(&channels.secrets);
        let Some(store) = open_chat_store(app, &channels)? else {
            let delivery_queue = open_delivery_queue(app, &channels, tasks).await?;
            return Ok(Self { delivery_queue, chats: None, hooks: None });
        };
        recall_routes(&*store, &channels).await?;
        let delivery_queue = open_delivery_queue(app, &channels, tasks).await?;
        let open = OpenChats { store, delivery_queue, tasks: tasks.clone() };
        let chats = start_chats(app, local, channels, &open).await?;
        let hooks = open_hooks_in(app, local, bus, &open).await?;
        Ok(Self { delivery_queue: open.delivery_queue, chats, hooks })
    }
}

/// The parts shared by chats and webhooks.
struct OpenChats {
    store: Arc<dyn ChatStore>,
    delivery_queue: DeliveryQueue,
    tasks: TaskGroup,
}

/// Opens the store for chats and webhooks. Returns `None` in a home that has neither.
fn open_chat_store(
    app: &App,
    channels: &OpenChannels,
) -> Result<Option<Arc<dyn ChatStore>>, CommandError> {
    let has_channels = !channels.adapters.is_empty() || !channels.unusable.is_empty();
    if !has_channels && app.config.hooks_in().is_empty() {
        return Ok(None);
    }
    Ok(Some(Arc::new(SqliteChats::open(&app.home.chats_db())?)))
}

/// Gives each adapter the ways to answer that it had before the restart.
async fn recall_routes(store: &dyn ChatStore, channels: &OpenChannels) -> Result<(), CommandError> {
    for adapter in &channels.adapters {
        let routes = store.routes(adapter.platform()).await.map_err(CommandError::internal)?;
        adapter.recall_routes(routes);
    }
    Ok(())
}

/// Builds the delivery queue, and sends the texts that an earlier process left unsent.
async fn open_delivery_queue(
    app: &App,
    channels: &OpenChannels,
    tasks: &TaskGroup,
) -> Result<DeliveryQueue, CommandError> {
    let delivery_queue = build_delivery_queue(app, channels, tasks)?;
    let left = delivery_queue.recover().await.map_err(CommandError::internal)?;
    if left > 0 {
        tracing::info!(texts = left, "sending texts that had not reached their channel");
    }
    Ok(delivery_queue)
}

/// Starts serving the chats, if a channel is configured.
async fn start_chats(
    app: &App,
    local: &LocalEngine,
    channels: OpenChannels,
    open: &OpenChats,
) -> Result<Option<ChatHost>, CommandError> {
    if channels.adapters.is_empty() && channels.unusable.is_empty() {
        return Ok(None);
    }
    let parts = ChatHostParts {
        engine: local.engine.clone(),
        profiles: Arc::clone(&local.profiles) as _,
        adapters: channels.adapters,
        settings: channels.settings,
        unusable: channels.unusable,
        chats: Arc::clone(&open.store),
        delivery_queue: open.delivery_queue.clone(),
        clock: Arc::new(SystemClock),
        sessions_dir: app.home.sessions_dir(),
        tasks: open.tasks.clone(),
    };
    let host = ChatHost::start(parts).await.map_err(CommandError::internal)?;
    Ok(Some(host))
}

/// Reads the secrets of the webhooks, if there are any, and resumes the answers that an earlier process left
/// undelivered.
async fn open_hooks_in(
    app: &App,
    local: &LocalEngine,
    bus: Option<Arc<dyn Bus>>,
    open: &OpenChats,
) -> Result<Option<HooksIn>, CommandError> {
    if app.config.hooks_in().is_empty() {
        return Ok(None);
    }
    let mut hooks = BTreeMap::new();
    for (name, fields) in app.config.hooks_in() {
        let Some(source) = &fields.secret else { continue };
        match read_secret(app, source, &*local.commands).await {
            Ok(secret) => {
                local.redactor.add([&secret]);
                let text = |template: &Option<TemplateText>| {
                    template.as_ref().map(|text| Arc::clone(&text.0))
                };
                let hook = HookIn {
                    scheme: fields.scheme.into(),
                    secret: secret.into(),
                    profile: fields.profile.as_ref().map(|name| Arc::clone(&name.0)),
                    session: text(&fields.session),
                    prompt: text(&fields.prompt),
                    reply: fields.reply.as_deref().map(Arc::from),
                };
                hooks.insert(Arc::clone(&name.0), hook);
            }
            Err(error) => tracing::warn!("the webhook {} cannot be used: {error}", name.0),
        }
    }
    let Some(from) = sender_endpoint(app) else {
        return Err(CommandError::internal("this process has no name on the bus"));
    };
    let hooks = HooksIn::new(HooksInParts {
        hooks,
        engine: local.engine.clone(),
        profiles: Arc::clone(&local.profiles) as _,
        chats: Arc::clone(&open.store),
        results: ResultDelivery { delivery_queue: open.delivery_queue.clone(), bus, from },
        tasks: open.tasks.clone(),
    });
    hooks.recover().await?;
    Ok(Some(hooks))
}

/// Builds the delivery queue with the configured channels.
fn build_delivery_queue(
    app: &App,
    channels: &OpenChannels,
    tasks: &TaskGroup,
) -> Result<DeliveryQueue, CommandError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let ledger = SqliteDeliveries::open(&app.home.deliveries_db())?;
    let environment = app.environment.clone();
    let variable = move |name: &str| {
        let value = environment.non_empty(name)?;
        value.to_str().map(str::to_owned)
    };
    let mut adapters: Vec<Arc<dyn Channel>> = channels.adapters.clone();
    if let Some(url) = variable("ANGELIA_WEBHOOK_URL") {
        let secret = variable("ANGELIA_WEBHOOK_SECRET").unwrap_or_default();
        let webhook = Webhook::new(&url, &secret, Arc::clone(&clock));
        let webhook = webhook.map_err(|error| {
            CommandError::new(Exit::Config, format!("the webhook: {error}"))
                .with_hint("set ANGELIA_WEBHOOK_URL and ANGELIA_WEBHOOK_SECRET (docs/bus.md)")
        })?;
        adapters.push(Arc::new(webhook));
    }
    Ok(DeliveryQueue::new(DeliveryQueueParts {
        channels: ChannelRegistry::new(adapters, variable),
        ledger: Arc::new(ledger),
        clock,
        tasks: tasks.clone(),
        retry: RetryPolicy::default(),
    }))
}

//! `sessions.snapshots`: also writes every session as a JSON file, for people and programs that
//! read files. The whole file is written after each change and renamed into place, so that a reader
//! never sees half of it.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use angelia_core::{
    engine::{Engine, EngineError},
    model::{Content, HistoryMessage, MessagePart, Role, SessionId},
    ports::Page,
    task::TaskGroup,
};
use angelia_frontends::http::resources;
use base64::Engine as _;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

const FORMAT_VERSION: u32 = 1;
const PAGE_SIZE: usize = 512;

#[derive(Serialize)]
struct Snapshot {
    version: u32,
    session: resources::SessionResource,
    /// The conversation with true roles, including that of the sessions it was forked from.
    messages: Vec<Value>,
    /// Oldest first.
    turns: Vec<resources::TurnResource>,
}

/// Keeps the files up to date until `tasks` are stopped. Changes made before that are still
/// written.
pub(crate) fn spawn_writer(engine: &Engine, folder: PathBuf, tasks: &TaskGroup) {
    let mut changes = engine.subscribe_changes();
    let engine = engine.clone();
    let stop = tasks.stop_token().clone();
    tasks.spawn(async move {
        loop {
            let next = tokio::select! {
                biased;
                next = changes.recv() => next,
                () = stop.cancelled() => break,
            };
            match next {
                Ok(session) => update_file(&engine, &folder, session).await,
                // The next change to those sessions brings their files up to date.
                Err(RecvError::Lagged(missed)) => {
                    tracing::warn!(missed, "some snapshots were not written");
                }
                Err(RecvError::Closed) => return,
            }
        }
        loop {
            match changes.try_recv() {
                Ok(session) => update_file(&engine, &folder, session).await,
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    });
}

async fn update_file(engine: &Engine, folder: &Path, session: SessionId) {
    let path = folder.join(format!("{session}.json"));
    let written = match build_snapshot(engine, session).await {
        Ok(snapshot) => write_file(&path, &snapshot),
        Err(EngineError::NotFound(_)) => match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        },
        Err(error) => Err(io::Error::other(error)),
    };
    if let Err(error) = written {
        tracing::warn!(%session, %error, "the snapshot of a session could not be written");
    }
}

async fn build_snapshot(engine: &Engine, id: SessionId) -> Result<Snapshot, EngineError> {
    let session = engine.session(id).await?;
    let mut turns = Vec::new();
    let mut page = Page::first(PAGE_SIZE);
    loop {
        let older = engine.turns(Some(id), page).await?;
        let Some(oldest) = older.last() else { break };
        page.before = Some(oldest.id.as_uuid());
        turns.extend(older.iter().map(resources::TurnResource::from));
    }
    turns.reverse();
    let messages = engine.messages(id).await?;
    Ok(Snapshot {
        version: FORMAT_VERSION,
        session: resources::SessionResource::from(&session),
        messages: messages.iter().map(message_json).collect(),
        turns,
    })
}

fn write_file(path: &Path, snapshot: &Snapshot) -> io::Result<()> {
    let Some(folder) = path.parent() else {
        return Ok(());
    };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let unfinished = path.with_extension(format!("json.{}", std::process::id()));
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&unfinished)?;
    let mut body = serde_json::to_vec(snapshot)?;
    body.push(b'\n');
    let written = file
        .write_all(&body)
        .and_then(|()| file.sync_data())
        .and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        // The disk may be full; do not leave a partial file behind.
        let _gone = fs::remove_file(&unfinished);
    }
    written
}

fn message_json(message: &HistoryMessage) -> Value {
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    json!({"role": role, "content": message.parts.iter().map(part_json).collect::<Vec<_>>()})
}

fn part_json(part: &MessagePart) -> Value {
    match part {
        MessagePart::Content(part) => content_json(part),
        MessagePart::Thinking { text, .. } => json!({"type": "thinking", "thinking": &**text}),
        MessagePart::ToolUse { id, name, input } => json!({
            "type": "tool_use", "id": id.as_str(), "name": &**name,
            "input": serde_json::from_str::<Value>(input.get()).unwrap_or_default(),
        }),
        MessagePart::ToolResult { id, ok, content: parts } => json!({
            "type": "tool_result", "tool_use_id": id.as_str(), "is_error": !ok,
            "content": parts.iter().map(content_json).collect::<Vec<_>>(),
        }),
    }
}

fn content_json(content: &Content) -> Value {
    match content {
        Content::Text(text) => json!({"type": "text", "text": &**text}),
        Content::Image { media_type, data } => json!({"type": "image", "source": {
            "type": "base64", "media_type": &**media_type,
            "data": base64::engine::general_purpose::STANDARD.encode(data),
        }}),
    }
}

//! Looks up people, channels and posts on the server, and caches the answers.

use std::{collections::HashMap, sync::Arc};

use angelia_core::ports::{ConnectionError, Sender};
use serde::Deserialize as _;
use serde_json::Value;

use super::{adapter::Mattermost, decode::Post};
use crate::chat::bearer_api::ApiRequest;

/// How many answers of each kind are cached.
const MAX_KNOWN: usize = 2000;

/// The cached answers.
#[derive(Debug, Default)]
pub(super) struct KnownThings {
    names: HashMap<Arc<str>, Arc<str>>,
    /// Whether a channel is direct.
    direct: HashMap<Arc<str>, bool>,
    /// The author of the first post of each thread.
    authors: HashMap<Arc<str>, Arc<str>>,
}

fn keep<V>(map: &mut HashMap<Arc<str>, V>, key: &Arc<str>, value: V) {
    if map.len() >= MAX_KNOWN {
        map.clear();
    }
    map.insert(Arc::clone(key), value);
}

impl Mattermost {
    /// Returns a person's id and name.
    pub(super) async fn sender(&self, id: &Arc<str>) -> Result<Sender, ConnectionError> {
        let known = self.known.lock().names.get(id).cloned();
        if let Some(name) = known {
            return Ok(Sender::new(Arc::clone(id), name));
        }
        let user = self.api.find(&ApiRequest::get(&["users", id])).await?.unwrap_or_default();
        let name: Arc<str> = user["username"].as_str().unwrap_or_default().into();
        keep(&mut self.known.lock().names, id, Arc::clone(&name));
        Ok(Sender::new(Arc::clone(id), name))
    }

    /// Returns whether a channel is a conversation with one person.
    pub(super) async fn is_direct(&self, channel: &Arc<str>) -> Result<bool, ConnectionError> {
        let known = self.known.lock().direct.get(channel).copied();
        if let Some(known) = known {
            return Ok(known);
        }
        let found = self.api.find(&ApiRequest::get(&["channels", channel])).await?;
        let is_direct = found.is_some_and(|found| found["type"] == "D");
        keep(&mut self.known.lock().direct, channel, is_direct);
        Ok(is_direct)
    }

    /// Returns whether the bot began the thread of a post.
    pub(super) async fn answers_bot(
        &self,
        post: &Post,
        bot: &str,
    ) -> Result<bool, ConnectionError> {
        if post.root_id.is_empty() {
            return Ok(false);
        }
        let known = self.known.lock().authors.get(&post.root_id).cloned();
        if let Some(author) = known {
            return Ok(*author == *bot);
        }
        let author = self.find_post(&post.root_id).await?.unwrap_or_default().user_id;
        keep(&mut self.known.lock().authors, &post.root_id, Arc::clone(&author));
        Ok(*author == *bot)
    }

    pub(super) async fn find_post(&self, id: &str) -> Result<Option<Post>, ConnectionError> {
        let found = self.api.find(&ApiRequest::get(&["posts", id])).await?;
        Ok(found.and_then(|found| Post::deserialize(&found).ok()))
    }

    /// Returns the channels that the bot is in.
    pub(super) async fn channels(&self) -> Result<Vec<KnownChannel>, ConnectionError> {
        let request = ApiRequest::get(&["users", "me", "channels"]);
        let list = self.api.call(&request, &Value::Null).await?;
        let channels = list.as_array().into_iter().flatten().filter_map(|channel| {
            Some(KnownChannel {
                id: channel["id"].as_str()?.into(),
                is_direct: channel["type"] == "D",
                last_post_at: channel["last_post_at"].as_i64().unwrap_or_default(),
            })
        });
        Ok(channels.collect())
    }
}

/// A channel that the bot is in.
#[derive(Debug)]
pub(super) struct KnownChannel {
    pub(super) id: Arc<str>,
    pub(super) is_direct: bool,
    pub(super) last_post_at: i64,
}

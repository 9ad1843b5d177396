//! Checks the set-up: who the bot is, and which of its rooms it can read.

use angelia_core::ports::{ChannelFinding, ConnectionError};
use serde_json::Value;

use super::adapter::Matrix;
use crate::chat::bearer_api::ApiRequest;

/// How many rooms are checked.
const MAX_ROOMS: usize = 50;

impl Matrix {
    pub(super) async fn find_problems(&self) -> Result<Vec<ChannelFinding>, ConnectionError> {
        let bot = self.identity().await?;
        let fine = |text: String| ChannelFinding { is_problem: false, text };
        let problem = |text: String| ChannelFinding { is_problem: true, text };
        let name = if bot.name.is_empty() { String::new() } else { format!(" ({})", bot.name) };
        let mut findings = vec![fine(format!("the bot is {}{name}", bot.id))];
        if let Some(wanted) = self.wanted_user.as_deref().filter(|wanted| **wanted != *bot.id) {
            findings.push(problem(format!(
                "the access token belongs to {}, but `user_id` says {wanted}; log in as {wanted}, or change it",
                bot.id
            )));
        }
        let rooms = self.api.call(&ApiRequest::get(&["joined_rooms"]), &Value::Null).await?;
        let rooms = rooms["joined_rooms"].as_array().cloned().unwrap_or_default();
        let mut encrypted = Vec::new();
        for room in rooms.iter().filter_map(Value::as_str).take(MAX_ROOMS) {
            let request = ApiRequest::get(&["rooms", room, "state", "m.room.encryption"]);
            if self.api.find(&request).await?.is_some() {
                encrypted.push(room);
            }
        }
        match rooms.len() {
            0 => findings.push(fine(
                "it is in no room yet; invite it into one without encryption".to_owned(),
            )),
            count => findings.push(fine(format!("it is in {count} rooms"))),
        }
        if !encrypted.is_empty() {
            let text = format!(
                "these rooms are encrypted, and nothing in them can be read: {}; use rooms without encryption",
                encrypted.join(", ")
            );
            // A single readable room is enough.
            let is_problem = encrypted.len() == rooms.len();
            findings.push(ChannelFinding { is_problem, text });
        }
        Ok(findings)
    }
}

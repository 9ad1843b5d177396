//! What people do on the server.

use serde_json::{Value, json};

use super::{MattermostServer, id_of};

impl MattermostServer {
    /// Simulates a direct message from a person to the bot. Returns the id of the post.
    pub fn say(&self, person: &str, text: &str) -> String {
        let channel = self.direct_channel(person);
        self.say_in(&channel, person, &json!({"message": text}))
    }

    /// Simulates a post with these fields by a person. Returns its id.
    pub fn say_in(&self, channel: &str, person: &str, fields: &Value) -> String {
        let mut fields = fields.clone();
        fields["channel_id"] = channel.into();
        let post = self.state().add_post(&id_of(person), &fields);
        post["id"].as_str().unwrap_or_default().to_owned()
    }

    /// Simulates that a person edits a post.
    pub fn edit(&self, post: &str, text: &str) {
        self.state().change_post(post, "post_edited", |post, at| {
            post["message"] = text.into();
            post["edit_at"] = at.into();
        });
    }

    /// Simulates that a person deletes a post.
    pub fn delete(&self, post: &str) {
        self.state().change_post(post, "post_deleted", |post, at| post["delete_at"] = at.into());
    }

    /// Simulates a reaction of a person to a post.
    pub fn react(&self, person: &str, post: &str, emoji: &str) {
        let mut state = self.state();
        let at = state.tick();
        let reaction = json!({
            "user_id": id_of(person), "post_id": post, "emoji_name": emoji, "create_at": at,
        });
        let data = json!({"reaction": reaction.to_string()});
        state.last_event = Some(("reaction_added".to_owned(), data.clone()));
        state.send_event("reaction_added", &data);
    }
}

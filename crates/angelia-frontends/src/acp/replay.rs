//! Replays the turns of a session to the editor when it is loaded.

use angelia_core::{
    model::{Content, Message, Part, Role, SessionRecord, TurnRecord},
    ports::Page,
};

use super::{connection::Connection, errors::Refusal, meter::Spent, update::Updates};

const PAGE: usize = 256;

/// About how many bytes are sent at once.
const PIECE: usize = 64 * 1024;

impl Connection {
    /// Sends all turns of a session to the editor, and returns what the session has cost.
    pub(super) async fn replay(&self, record: &SessionRecord) -> Result<Spent, Refusal> {
        let updates = Updates::new(record.id, &record.spec.cwd, self.client().features);
        let mut updates = updates.having_spent(Spent::NOTHING);
        let mut out = Vec::new();
        carried(&record.spec.history, &updates, &mut out);
        for turn in self.turns(record).await? {
            updates.input(turn.id, &turn.input, &mut out);
            let mut watch = self.engine.watch(turn.id, 0).await?;
            while let Some(batch) =
                watch.next().await.map_err(angelia_core::engine::EngineError::from)?
            {
                for event in &*batch {
                    updates.event(event, &mut out);
                }
                if out.len() > PIECE {
                    self.say(std::mem::take(&mut out)).await;
                }
            }
        }
        self.say(out).await;
        Ok(updates.spent())
    }

    /// Returns all turns, oldest first, including those of the sessions that this one was forked
    /// from.
    async fn turns(&self, record: &SessionRecord) -> Result<Vec<TurnRecord>, Refusal> {
        let mut turns = Vec::new();
        let mut session = record.id;
        let mut forked_from = record.forked_from;
        let mut before = None;
        loop {
            let page = Page { limit: PAGE, before };
            let older = self.engine.turns(Some(session), page).await?;
            let Some(oldest) = older.last() else {
                // Ids sort by age: turns of the parent that are younger than the fork do not belong
                // to it.
                let Some(parent) = forked_from else { break };
                before = Some(session.as_uuid());
                session = parent;
                forked_from = match self.engine.session(parent).await {
                    Ok(record) => record.forked_from,
                    Err(_removed) => break,
                };
                continue;
            };
            before = Some(oldest.id.as_uuid());
            turns.extend(older);
        }
        turns.reverse();
        Ok(turns)
    }
}

/// Sends the text of a history that came from elsewhere.
fn carried(history: &[Message], updates: &Updates, out: &mut Vec<u8>) {
    for (number, message) in history.iter().enumerate() {
        let id = format!("history-{number}");
        for part in &message.parts {
            if let Part::Content(Content::Text(text)) = part {
                updates.words(message.role == Role::User, &id, text, out);
            }
        }
    }
}

//! Replays the turns of a session to the editor when it is loaded.

use angelia_core::{
    model::{Content, HistoryMessage, MessagePart, Role, SessionRecord, TurnRecord},
    ports::Page,
};

use super::{
    connection::EditorConnection, errors::AcpError, update::UpdateEncoder,
    usage_update::SessionCost,
};

const TURNS_PER_PAGE: usize = 256;

/// About how many bytes are sent at once.
const FLUSH_BYTES: usize = 64 * 1024;

impl EditorConnection {
    /// Sends all turns of a session to the editor, and returns what the session has cost.
    pub(super) async fn replay(&self, record: &SessionRecord) -> Result<SessionCost, AcpError> {
        let updates = UpdateEncoder::new(record.id, &record.spec.cwd, self.capabilities().features);
        let mut updates = updates.with_cost(SessionCost::ZERO);
        let mut out = Vec::new();
        write_history(&record.spec.history, &updates, &mut out);
        for turn in self.all_turns(record).await? {
            updates.encode_input(turn.id, &turn.input, &mut out);
            let mut watch = self.engine.watch(turn.id, 0).await?;
            while let Some(batch) =
                watch.next().await.map_err(angelia_core::engine::EngineError::from)?
            {
                for event in &*batch {
                    updates.encode_event(event, &mut out);
                }
                if out.len() > FLUSH_BYTES {
                    self.send_lines(std::mem::take(&mut out)).await;
                }
            }
        }
        self.send_lines(out).await;
        Ok(updates.cost())
    }

    /// Returns all turns, oldest first, including those of the sessions that this one was forked
    /// from.
    async fn all_turns(&self, record: &SessionRecord) -> Result<Vec<TurnRecord>, AcpError> {
        let mut turns = Vec::new();
        let mut session = record.id;
        let mut forked_from = record.forked_from;
        let mut before = None;
        loop {
            let page = Page { limit: TURNS_PER_PAGE, before };
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
fn write_history(history: &[HistoryMessage], updates: &UpdateEncoder, out: &mut Vec<u8>) {
    for (number, message) in history.iter().enumerate() {
        let id = format!("history-{number}");
        for part in &message.parts {
            if let MessagePart::Content(Content::Text(text)) = part {
                updates.encode_history_text(message.role == Role::User, &id, text, out);
            }
        }
    }
}

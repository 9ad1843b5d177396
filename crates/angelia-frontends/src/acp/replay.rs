//! Replays the turns of a session to the editor when it is loaded.

use angelia_core::model::{Content, HistoryMessage, MessagePart, Role, SessionRecord};

use super::{
    connection::EditorConnection, errors::AcpError, update::UpdateEncoder,
    usage_update::SessionCost,
};

/// About how many bytes are sent at once.
const FLUSH_BYTES: usize = 64 * 1024;

impl EditorConnection {
    /// Sends all turns of a session to the editor, and returns the cost of the session.
    pub(super) async fn replay(&self, record: &SessionRecord) -> Result<SessionCost, AcpError> {
        let updates = UpdateEncoder::new(record.id, &record.spec.cwd, self.capabilities().features);
        let mut updates = updates.with_cost(SessionCost::ZERO);
        let mut out = Vec::new();
        write_history(&record.spec.history, &updates, &mut out);
        for turn in self.engine.conversation_turns(record).await? {
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
}

/// Sends the text of a history that came from another client.
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

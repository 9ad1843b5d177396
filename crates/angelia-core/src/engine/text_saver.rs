//! Saves the text of open blocks from time to time, so that a killed process loses little of the
//! text that viewers have seen. A short turn ends before anything is saved.

use std::time::Duration;

use tokio::time::Instant;

use super::{event_writer::EventWriter, transcript::TurnTranscript};
use crate::{
    model::{EventKind, TurnEvent, TurnId},
    ports::{OpenText, PendingCommit, StoreError},
};

/// Text is saved when this much of it is unsaved …
const MAX_UNSAVED_BYTES: usize = 4096;
/// … or this long after it was shown.
const MAX_UNSAVED_TIME: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct TextSaver {
    unsaved_bytes: usize,
    /// Set while there is unsaved text.
    due_at: Option<Instant>,
    /// The last save, until it is known to be committed.
    unconfirmed: Option<(PendingCommit, Vec<OpenText>)>,
}

impl TextSaver {
    /// Returns when the unsaved text must be saved, or `None` if there is none.
    pub(super) const fn due_at(&self) -> Option<Instant> {
        self.due_at
    }

    pub(super) const fn is_full(&self) -> bool {
        self.unsaved_bytes >= MAX_UNSAVED_BYTES
    }

    /// Handles an event that `transcript` has already applied.
    pub(super) fn on_event(&mut self, event: &TurnEvent, transcript: &TurnTranscript) {
        match &event.kind {
            EventKind::Delta { text, .. } => {
                self.unsaved_bytes += text.len();
                self.due_at.get_or_insert_with(|| Instant::now() + MAX_UNSAVED_TIME);
            }
            EventKind::Block { .. } if self.due_at.is_some() && !transcript.has_unsaved_text() => {
                self.clear();
            }
            _ => {}
        }
    }

    const fn clear(&mut self) {
        self.unsaved_bytes = 0;
        self.due_at = None;
    }

    /// Passes the unsaved text to the store, together with text that the last save failed to write.
    pub(super) async fn save(
        &mut self,
        writer: &EventWriter,
        turn: TurnId,
        transcript: &mut TurnTranscript,
    ) {
        self.clear();
        let mut pieces = Vec::new();
        if let Some((commit, unsaved)) = self.unconfirmed.take()
            // Already committed, unless the store is slow.
            && let Err(error) = commit.await
        {
            tracing::debug!(%error, "the text so far could not be saved; trying again");
            pieces = unsaved;
        }
        pieces.extend(transcript.take_unsaved_text());
        pieces.retain(|piece| transcript.is_open(piece.block));
        if pieces.is_empty() {
            return;
        }
        let saved = writer.store().save_open_text(writer.lease(), turn, pieces.clone()).await;
        let commit = saved.unwrap_or_else(|error: StoreError| PendingCommit::ready(Err(error)));
        self.unconfirmed = Some((commit, pieces));
    }
}

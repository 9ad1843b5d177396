//! Queries over the recorded turns of all sessions: lists, usage, quotas and search.

use super::facade::{Engine, EngineError};
use crate::{
    model::{ColdStart, Quota, SearchMatch, SearchQuery, TurnRecord, UsageQuery, UsageTotals},
    ports::{Page, TurnFilter},
};

impl Engine {
    /// Lists turns like [`Engine::turns`], but only those that match the filter.
    pub async fn find_turns(
        &self,
        filter: TurnFilter,
        page: Page,
    ) -> Result<Vec<TurnRecord>, EngineError> {
        let kept = self.shared.kept_ends();
        let mut turns = self.shared.store.find_turns(filter.clone(), page).await?;
        turns.retain_mut(|turn| {
            if let Some(end) = kept.get(&turn.id) {
                turn.state = end.clone();
            }
            filter.admits(turn)
        });
        Ok(turns)
    }

    /// Adds up the usage of turns.
    pub async fn usage(&self, query: UsageQuery) -> Result<Vec<UsageTotals>, EngineError> {
        Ok(self.shared.store.usage(query).await?)
    }

    /// Returns finished turns that found nothing in the model's cache, newest first.
    pub async fn cold_starts(
        &self,
        query: UsageQuery,
        limit: usize,
    ) -> Result<Vec<ColdStart>, EngineError> {
        Ok(self.shared.store.cold_starts(query, limit).await?)
    }

    pub async fn quotas(&self) -> Result<Vec<Quota>, EngineError> {
        Ok(self.shared.store.quotas().await?)
    }

    /// Searches the texts of people and agents.
    pub async fn search(&self, query: SearchQuery) -> Result<Vec<SearchMatch>, EngineError> {
        Ok(self.shared.store.search(query).await?)
    }
}

//! Usage and search over the turns in memory.

use std::collections::{BTreeMap, HashSet};

use angelia_core::model::{
    AgentStart, ColdReason, ColdStart, Content, EventKind, OWNER_ACCOUNT, SearchMatch, SearchQuery,
    SessionId, Speaker, TextChannel, TurnId, Usage, UsageBucket, UsageGroup, UsageQuery,
    UsageTotals,
};
use jiff::{Timestamp, tz::TimeZone};

use super::state::{MemoryStoreState, TurnEntry};

/// The usage of a turn. Kept separately from the turn, because it stays when the session is
/// deleted.
#[derive(Clone, Debug)]
pub(super) struct UsageEntry {
    pub(super) session: Option<SessionId>,
    pub(super) at: Timestamp,
    pub(super) started: AgentStart,
    pub(super) account: Option<std::sync::Arc<str>>,
    pub(super) usage: Usage,
}

impl UsageEntry {
    fn key(&self, by: UsageGroup) -> Option<String> {
        match by {
            UsageGroup::Day => Some(local(self.at, "%Y-%m-%d")),
            UsageGroup::Profile => Some(self.started.profile.to_string()),
            UsageGroup::Key => Some(self.account.as_deref().unwrap_or(OWNER_ACCOUNT).to_owned()),
            UsageGroup::Session => self.session.map(|id| id.to_string()),
            UsageGroup::Model => self.started.model.as_deref().map(str::to_owned),
            UsageGroup::Executor => Some(self.started.executor.to_string()),
            UsageGroup::Lane => self.usage.lane.as_deref().map(str::to_owned),
        }
    }

    fn start(&self, bucket: UsageBucket) -> String {
        match bucket {
            UsageBucket::Hour => local(self.at, "%Y-%m-%dT%H:00"),
            UsageBucket::Day => local(self.at, "%Y-%m-%dT00:00"),
        }
    }
}

fn local(at: Timestamp, format: &str) -> String {
    at.to_zoned(TimeZone::system()).strftime(format).to_string()
}

impl MemoryStoreState {
    pub(super) fn usage_totals(&self, query: UsageQuery) -> Vec<UsageTotals> {
        let mut rows: BTreeMap<(Option<String>, Option<String>), UsageTotals> = BTreeMap::new();
        let is_wanted = |entry: &&UsageEntry| {
            query.from.is_none_or(|from| entry.at >= from)
                && query.to.is_none_or(|to| entry.at < to)
        };
        for (turn, entry) in self.usage.iter().filter(|(_, entry)| is_wanted(entry)) {
            let start = query.bucket.map(|bucket| entry.start(bucket));
            let key = query.by.and_then(|by| entry.key(by));
            let row = rows.entry((start.clone(), key.clone())).or_insert_with(|| UsageTotals {
                key: key.map(Into::into),
                start: start.map(Into::into),
                turns: 0,
                cold_starts: 0,
                usage: Usage::default(),
            });
            row.turns += 1;
            row.cold_starts += u64::from(self.cold_reason(*turn, entry).is_some());
            row.usage = row.usage.plus(&plain_counts(&entry.usage));
        }
        let mut rows: Vec<_> = rows.into_values().collect();
        if query.by != Some(UsageGroup::Day) {
            // The sort is stable: rows of one period that cost the same stay ordered by their keys.
            rows.sort_by(|a, b| {
                let cost = |row: &UsageTotals| row.usage.cost_usd.unwrap_or(-1.0);
                let tokens = |row: &UsageTotals| row.usage.input_tokens + row.usage.output_tokens;
                let by_cost = cost(b).total_cmp(&cost(a));
                a.start.cmp(&b.start).then(by_cost).then(tokens(b).cmp(&tokens(a)))
            });
        }
        rows
    }

    /// Returns why a finished turn was cold, if it was.
    fn cold_reason(&self, turn: TurnId, entry: &UsageEntry) -> Option<ColdReason> {
        let is_finished = self.turns.get(&turn).is_none_or(TurnEntry::is_finished);
        let mut earlier = self.usage.range(..turn).rev();
        let before = earlier.find(|(_, one)| one.session == entry.session);
        let before = before
            .map(|(_, one)| (one.started.model.as_deref(), one.usage.prefix_sha256.as_deref()));
        let reason = ColdReason::of(&entry.usage, entry.started.model.as_deref(), before);
        reason.filter(|_| is_finished)
    }

    pub(super) fn cold_starts(&self, query: UsageQuery, limit: usize) -> Vec<ColdStart> {
        let wanted = self.usage.iter().rev().filter(|(_, entry)| {
            query.from.is_none_or(|from| entry.at >= from)
                && query.to.is_none_or(|to| entry.at < to)
        });
        let cold = wanted.filter_map(|(turn, entry)| {
            let session = entry.session.and_then(|id| self.sessions.get(&id));
            let summary = session.map(|session| self.session_summary(session));
            let title = summary.and_then(|one| one.record.title.or(one.first_words));
            Some(ColdStart {
                turn: *turn,
                session: entry.session,
                title,
                at: entry.at,
                profile: entry.started.profile.clone(),
                model: entry.started.model.clone(),
                reason: self.cold_reason(*turn, entry)?,
                usage: plain_counts(&entry.usage),
            })
        });
        cold.take(limit).collect()
    }

    pub(super) fn search(&self, query: &SearchQuery) -> Vec<SearchMatch> {
        let mut sessions = HashSet::new();
        let mut found = Vec::new();
        for turn in self.turns_in_order().into_iter().rev().filter(|turn| turn.is_finished()) {
            for (speaker, text) in [(Speaker::Agent, answer(turn)), (Speaker::Person, input(turn))]
            {
                if found.len() < query.limit
                    && query.terms.matches(&text)
                    && sessions.insert(turn.record.session)
                {
                    found.push(SearchMatch {
                        session: turn.record.session,
                        turn: turn.record.id,
                        at: turn.record.created_at,
                        speaker,
                        excerpt: query.terms.excerpt(&text),
                    });
                }
            }
        }
        found
    }
}

/// Returns only the counts and the cost.
fn plain_counts(usage: &Usage) -> Usage {
    Usage { lane: None, prefix_sha256: None, context: None, ..usage.clone() }
}

fn input(turn: &TurnEntry) -> String {
    let texts = turn.record.input.iter().filter_map(|part| match part {
        Content::Text(text) => Some(&**text),
        Content::Image { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn answer(turn: &TurnEntry) -> String {
    let mut said = String::new();
    for event in turn.events.values() {
        let text = match &event.kind {
            EventKind::Block { channel: TextChannel::Answer, text, .. } => text,
            EventKind::Finished(outcome) if said.is_empty() => &outcome.text,
            _ => continue,
        };
        said.push_str(text);
        said.push('\n');
    }
    said
}

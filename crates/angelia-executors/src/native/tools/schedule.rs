//! Decides which calls of an answer run at the same time. Pure.
//!
//! Calls run in waves. A wave is a sequence of calls that cannot interfere with each other, so the
//! outcome is the same as running them one by one. Results are in the order of the calls.

use std::{
    ops::Range,
    path::{Path, PathBuf},
};

use angelia_core::model::ToolClass;

use super::tool::CallPlan;

/// The maximum number of calls that run at once.
pub const MAX_PARALLEL: usize = 8;

/// What a call touches, which decides which other calls can run at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallScope {
    /// Reads below these real paths.
    Read(Vec<PathBuf>),
    /// Changes these real paths.
    Edit(Vec<PathBuf>),
    /// Touches nothing on this machine.
    Free,
    /// Another agent does the work, and may touch anything. Several agents can work at the same
    /// time.
    HandedOn,
    /// Runs a command, asks a person, or is unknown.
    Alone,
}

impl CallScope {
    /// Returns the scope of a call that nobody is asked about; any other call is [`Self::Alone`].
    pub fn of(plan: &CallPlan) -> Self {
        if plan.hands_on {
            return Self::HandedOn;
        }
        match plan.class {
            ToolClass::Read => Self::Read(plan.access.reads.clone()),
            ToolClass::Edit => Self::Edit(plan.access.writes.clone()),
            // The tool may read any file, so it can run together with reads, but not with edits.
            ToolClass::Execute | ToolClass::Other if plan.read_only_hint => {
                Self::Read(vec![PathBuf::from("/")])
            }
            ToolClass::Execute | ToolClass::Other => Self::Alone,
        }
    }

    fn conflicts_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Alone, _) | (_, Self::Alone) => true,
            (Self::Free, _)
            | (_, Self::Free)
            | (Self::HandedOn, Self::HandedOn)
            | (Self::Read(_), Self::Read(_)) => false,
            (Self::HandedOn, _) | (_, Self::HandedOn) => true,
            (Self::Read(one) | Self::Edit(one), Self::Read(two) | Self::Edit(two)) => {
                one.iter().any(|one| two.iter().any(|two| overlaps(one, two)))
            }
        }
    }
}

/// Returns whether one path is the other, or is below it.
fn overlaps(one: &Path, two: &Path) -> bool {
    one.starts_with(two) || two.starts_with(one)
}

/// Splits calls into waves, in their order.
pub fn plan_waves(calls: &[CallScope]) -> Vec<Range<usize>> {
    let mut waves: Vec<Range<usize>> = Vec::new();
    for (place, call) in calls.iter().enumerate() {
        match waves.last_mut() {
            Some(wave)
                if wave.len() < MAX_PARALLEL
                    && !calls[wave.clone()].iter().any(|other| other.conflicts_with(call)) =>
            {
                wave.end = place + 1;
            }
            _ => waves.push(place..place + 1),
        }
    }
    waves
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(path: &str) -> CallScope {
        CallScope::Read(vec![path.into()])
    }

    fn edit(path: &str) -> CallScope {
        CallScope::Edit(vec![path.into()])
    }

    #[test]
    fn neighbours_that_cannot_disturb_each_other_run_together() {
        let table: [(Vec<CallScope>, Vec<usize>); 10] = [
            (vec![], vec![]),
            (vec![read("/a"), read("/a"), read("/b")], vec![3]),
            (vec![edit("/a"), edit("/b"), read("/c")], vec![3]),
            (vec![edit("/a"), edit("/a")], vec![1, 2]),
            (vec![read("/src"), edit("/src/a"), edit("/src/b")], vec![1, 3]),
            (vec![edit("/a"), read("/")], vec![1, 2]),
            (vec![read("/a"), CallScope::Alone, read("/a")], vec![1, 2, 3]),
            (vec![CallScope::Free, edit("/a"), CallScope::Free], vec![3]),
            (vec![edit("/ab"), edit("/a")], vec![2]),
            (vec![read("/a"); 20], vec![8, 16, 20]),
        ];
        // Waves follow each other without a gap, so their ends say everything.
        for (calls, ends) in table {
            let starts = [0].into_iter().chain(ends.iter().copied());
            let expected: Vec<_> = starts.zip(&ends).map(|(start, end)| start..*end).collect();
            assert_eq!(plan_waves(&calls), expected, "{calls:?}");
        }
    }

    fn scope() -> impl Strategy<Value = CallScope> {
        let path = prop_oneof![Just("/a"), Just("/a/b"), Just("/a/c"), Just("/d")];
        let paths = proptest::collection::vec(path.prop_map(PathBuf::from), 0..3);
        prop_oneof![
            4 => paths.clone().prop_map(CallScope::Read),
            4 => paths.prop_map(CallScope::Edit),
            1 => Just(CallScope::Free),
            1 => Just(CallScope::Alone),
        ]
    }

    proptest! {
        /// E25: every call runs once and in order, no wave has a conflict, and no wave could be
        /// longer.
        #[test]
        fn waves_are_complete_safe_and_as_long_as_possible(
            calls in proptest::collection::vec(scope(), 0..40),
        ) {
            let waves = plan_waves(&calls);
            let order: Vec<usize> = waves.iter().cloned().flatten().collect();
            prop_assert_eq!(order, (0..calls.len()).collect::<Vec<_>>());
            for wave in &waves {
                prop_assert!((1..=MAX_PARALLEL).contains(&wave.len()));
                for one in wave.clone() {
                    for two in one + 1..wave.end {
                        prop_assert!(!calls[one].conflicts_with(&calls[two]));
                        prop_assert!(!calls[two].conflicts_with(&calls[one]));
                    }
                }
            }
            for pair in waves.windows(2) {
                let next = &calls[pair[1].start];
                let is_full = pair[0].len() == MAX_PARALLEL;
                prop_assert!(is_full || calls[pair[0].clone()].iter().any(|one| one.conflicts_with(next)));
            }
        }
    }
}

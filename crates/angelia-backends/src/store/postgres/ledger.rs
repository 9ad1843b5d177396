//! The ledger of a connection that writes: which of its attempts to commit have succeeded.
//!
//! Every attempt has a number of its own and moves a column of the owner's row from the last known number to
//! it, in the same transaction. If the answer to a commit is lost, the column tells what happened.
//! To read it is not enough, because the attempt may still be on its way: the column is moved to a fresh
//! number first, and after that the attempt can no longer succeed.

/// The column of a connection in the owner's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LedgerColumn {
    /// Of the connection that commits groups.
    Batch,
    /// Of the connection that commits single jobs.
    Single,
}

impl LedgerColumn {
    /// SQL that begins a transaction: owner, known number, next number.
    pub(super) fn enter_sql(self) -> &'static str {
        match self {
            Self::Batch => "SELECT enter_group($1, $2, $3)",
            Self::Single => "SELECT enter_alone($1, $2, $3)",
        }
    }

    /// SQL that moves the column: owner, known number, next number.
    pub(super) fn move_sql(self) -> &'static str {
        match self {
            Self::Batch => "UPDATE owners SET batch = $3 WHERE id = $1 AND batch = $2",
            Self::Single => "UPDATE owners SET single = $3 WHERE id = $1 AND single = $2",
        }
    }

    /// SQL that reads the column of an owner, and whether the owner was marked dead.
    pub(super) fn read_sql(self) -> &'static str {
        match self {
            Self::Batch => "SELECT batch, dead_at IS NOT NULL FROM owners WHERE id = $1",
            Self::Single => "SELECT single, dead_at IS NOT NULL FROM owners WHERE id = $1",
        }
    }
}

#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) column: LedgerColumn,
    /// What the column holds, apart from attempts whose answer was lost.
    known: i64,
    /// The greatest number that was ever used.
    last: i64,
    /// Attempts whose answer was lost.
    lost: Vec<i64>,
}

/// The database has less than it had acknowledged.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CommitsLost;

impl Ledger {
    pub(super) fn new(column: LedgerColumn) -> Self {
        Self { column, known: 0, last: 0, lost: Vec::new() }
    }

    pub(super) fn known(&self) -> i64 {
        self.known
    }

    /// Returns the number of a new attempt.
    pub(super) fn next(&mut self) -> i64 {
        self.last += 1;
        self.last
    }

    pub(super) fn note_commit(&mut self, attempt: i64) {
        self.known = attempt;
        self.lost.clear();
    }

    pub(super) fn note_lost_answer(&mut self, attempt: i64) {
        self.lost.push(attempt);
    }

    pub(super) fn has_lost_answers(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Takes over the number that the column has now, and returns it if it belongs to an attempt whose
    /// answer was lost: that one was committed.
    pub(super) fn settle(&mut self, found: i64) -> Result<Option<i64>, CommitsLost> {
        let committed = self.lost.contains(&found).then_some(found);
        if committed.is_none() && found != self.known {
            return Err(CommitsLost);
        }
        self.note_commit(found);
        Ok(committed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_column_tells_which_attempt_was_committed() {
        let mut ledger = Ledger::new(LedgerColumn::Batch);
        let first = ledger.next();
        ledger.note_commit(first);
        let (lost, moved) = (ledger.next(), ledger.next());
        ledger.note_lost_answer(lost);
        // The answer to the move was lost as well.
        ledger.note_lost_answer(moved);
        assert!(ledger.has_lost_answers());
        assert_eq!(ledger.settle(lost), Ok(Some(lost)));
        assert_eq!((ledger.known(), ledger.has_lost_answers()), (lost, false));
        assert!(ledger.next() > moved, "no number is used twice");
    }

    #[test]
    fn nothing_was_committed_if_the_column_has_not_moved() {
        let mut ledger = Ledger::new(LedgerColumn::Single);
        let lost = ledger.next();
        ledger.note_lost_answer(lost);
        assert_eq!(ledger.settle(0), Ok(None));
        assert_eq!(ledger.known(), 0);
    }

    #[test]
    fn a_column_behind_what_was_acknowledged_is_a_loss() {
        let mut ledger = Ledger::new(LedgerColumn::Batch);
        for _ in 0..3 {
            let attempt = ledger.next();
            ledger.note_commit(attempt);
        }
        assert_eq!(ledger.settle(2), Err(CommitsLost));
    }
}

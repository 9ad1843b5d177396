//! Redaction of text that comes in pieces.

use super::{MASK, Redactor, mask, shape};

/// A line that is not complete is kept back up to this length.
const LONGEST_LINE: usize = 64 * 1024;
/// A private key is shorter; whatever begins like one and does not end is text after all.
const LONGEST_KEY: usize = 16 * 1024;

/// Gives the same text as [`Redactor::redact`], however it is cut into pieces. Lines are kept
/// back until they are complete; of a very long one, a part is given out when no secret can reach
/// into the rest any more.
#[derive(Debug)]
pub struct StreamRedactor {
    redactor: Redactor,
    /// The line that is not complete yet.
    pending: String,
    /// A secret goes on for longer than we keep: the rest of the line is masked with it.
    drops_line: bool,
    /// Inside a private key, of which so much has been left out.
    key: Option<usize>,
}

impl StreamRedactor {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self { redactor, pending: String::new(), drops_line: false, key: None }
    }

    /// Takes the next piece and returns what can be shown.
    pub fn push(&mut self, piece: &str) -> String {
        let mut out = String::new();
        for part in piece.split_inclusive('\n') {
            self.part(part, &mut out);
        }
        out
    }

    /// Returns the rest.
    pub fn finish(mut self) -> String {
        let mut out = String::new();
        let rest = std::mem::take(&mut self.pending);
        self.line(&rest, &mut out);
        out
    }

    /// A line or a part of one.
    fn part(&mut self, part: &str, out: &mut String) {
        let is_complete = part.ends_with('\n');
        if self.drops_line {
            if is_complete {
                self.drops_line = false;
                out.push('\n');
            }
            return;
        }
        if is_complete && self.pending.is_empty() {
            self.line(part, out);
            return;
        }
        self.pending.push_str(part);
        if is_complete {
            let line = std::mem::take(&mut self.pending);
            self.line(&line, out);
        } else if self.pending.len() > LONGEST_LINE {
            self.shorten(out);
        }
    }

    /// A whole line, with its end if it has one.
    pub(super) fn line(&mut self, mut line: &str, out: &mut String) {
        loop {
            if let Some(left_out) = &mut self.key
                && *left_out <= LONGEST_KEY
            {
                let Some(end) = shape::key_end(line) else {
                    *left_out += line.len();
                    return;
                };
                line = &line[end..];
            }
            self.key = None;
            let Some(begin) = shape::key_begin(line) else {
                self.redactor.redact_line(line, out);
                return;
            };
            self.redactor.redact_line(&line[..begin.start], out);
            out.push_str(MASK);
            self.key = Some(0);
            line = &line[begin.end..];
        }
    }

    /// Gives out the beginning of a line that is too long to be kept.
    fn shorten(&mut self, out: &mut String) {
        if self.key.is_some() || shape::key_begin(&self.pending).is_some() {
            // No key has such lines. Masked as a whole, rather than followed through its parts.
            let line = std::mem::take(&mut self.pending);
            self.line(&line, out);
            self.drops_line = true;
            return;
        }
        let secrets = self.redactor.secrets(&self.pending);
        let kept = shape::LONGEST_HEAD.max(self.redactor.longest_known());
        let Some(edge) = self.pending.len().checked_sub(kept) else {
            return;
        };
        let mut cut = self.pending.floor_char_boundary(edge);
        // A secret is not cut, nor is it parted from what introduces it: it may go on in what is
        // still to come.
        while let Some(secret) = secrets.iter().find(|s| s.start < cut && cut < s.end) {
            let head = secret.start.saturating_sub(shape::LONGEST_HEAD);
            cut = self.pending.floor_char_boundary(head);
        }
        if cut == 0 {
            mask(&self.pending, &secrets, out);
            self.pending.clear();
            self.drops_line = true;
            return;
        }
        let before = secrets.partition_point(|secret| secret.end <= cut);
        mask(&self.pending[..cut], &secrets[..before], out);
        self.pending.drain(..cut);
    }
}

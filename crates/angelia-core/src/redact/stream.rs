//! Redaction of text that arrives in pieces.

use super::{MASK, Redactor, mask, shape};

/// An incomplete line is held back up to this length.
const LONGEST_LINE: usize = 64 * 1024;
/// Private keys are shorter. Text that starts like a key and does not end within this is shown.
const LONGEST_KEY: usize = 16 * 1024;

/// Produces the same text as [`Redactor::redact`], however it is cut into pieces. Lines are held
/// back until they are complete; the beginning of a very long line is released when no secret can
/// reach into the rest.
#[derive(Debug)]
pub struct StreamRedactor {
    redactor: Redactor,
    /// The incomplete line.
    pending: String,
    /// A secret is longer than the text we hold back: the rest of the line is masked with it.
    drops_line: bool,
    /// Set inside a private key: the number of bytes left out so far.
    key: Option<usize>,
}

impl StreamRedactor {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self { redactor, pending: String::new(), drops_line: false, key: None }
    }

    /// Takes the next piece and returns the text that can be shown.
    pub fn push(&mut self, piece: &str) -> String {
        let mut out = String::new();
        for part in piece.split_inclusive('\n') {
            self.part(part, &mut out);
        }
        out
    }

    /// Returns the rest of the text.
    pub fn finish(mut self) -> String {
        let mut out = String::new();
        let rest = std::mem::take(&mut self.pending);
        self.line(&rest, &mut out);
        out
    }

    /// Takes a complete line or a part of one.
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

    /// Takes a complete line, with its line break if it has one.
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

    /// Releases the beginning of a line that is too long to be held back.
    fn shorten(&mut self, out: &mut String) {
        if self.key.is_some() || shape::key_begin(&self.pending).is_some() {
            // No key has such long lines. Mask the whole line instead of tracking the key across
            // its parts.
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
        // Do not cut a secret or separate it from the text that introduces it: it may continue in
        // the next piece.
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

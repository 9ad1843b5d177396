//! Redaction of text that arrives in pieces.

use super::{MASK, Redactor, mask, shape};

/// An incomplete line is held back up to this length.
const MAX_HELD_LINE_BYTES: usize = 64 * 1024;
/// Longer than any private key. Text that starts like a key, but does not end within this length,
/// is shown.
const MAX_PRIVATE_KEY_BYTES: usize = 16 * 1024;

/// Produces the same text as [`Redactor::redact`], however the input is split into pieces. Holds
/// lines back until they are complete, but releases the beginning of a very long line when no
/// secret can extend into the rest.
#[derive(Debug)]
pub struct StreamRedactor {
    redactor: Redactor,
    /// The incomplete line.
    pending: String,
    /// Set if a secret is longer than the text held back: the rest of the line is masked with it.
    is_dropping_line: bool,
    /// Set inside a private key: number of bytes omitted so far.
    private_key_bytes: Option<usize>,
}

impl StreamRedactor {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self { redactor, pending: String::new(), is_dropping_line: false, private_key_bytes: None }
    }

    /// Takes the next piece and returns the text that can be shown.
    pub fn push(&mut self, piece: &str) -> String {
        let mut out = String::new();
        for part in piece.split_inclusive('\n') {
            self.push_part(part, &mut out);
        }
        out
    }

    /// Returns the rest of the text.
    pub fn finish(mut self) -> String {
        let mut out = String::new();
        let rest = std::mem::take(&mut self.pending);
        self.push_line(&rest, &mut out);
        out
    }

    /// Takes a complete line or a part of one.
    fn push_part(&mut self, part: &str, out: &mut String) {
        let is_complete = part.ends_with('\n');
        if self.is_dropping_line {
            if is_complete {
                self.is_dropping_line = false;
                out.push('\n');
            }
            return;
        }
        if is_complete && self.pending.is_empty() {
            self.push_line(part, out);
            return;
        }
        self.pending.push_str(part);
        if is_complete {
            let line = std::mem::take(&mut self.pending);
            self.push_line(&line, out);
        } else if self.pending.len() > MAX_HELD_LINE_BYTES {
            self.release_line_start(out);
        }
    }

    /// Takes a complete line, with its line break if it has one.
    pub(super) fn push_line(&mut self, mut line: &str, out: &mut String) {
        loop {
            if let Some(left_out) = &mut self.private_key_bytes
                && *left_out <= MAX_PRIVATE_KEY_BYTES
            {
                let Some(end) = shape::key_end(line) else {
                    *left_out += line.len();
                    return;
                };
                line = &line[end..];
            }
            self.private_key_bytes = None;
            let Some(begin) = shape::key_begin(line) else {
                self.redactor.redact_line(line, out);
                return;
            };
            self.redactor.redact_line(&line[..begin.start], out);
            out.push_str(MASK);
            self.private_key_bytes = Some(0);
            line = &line[begin.end..];
        }
    }

    /// Releases the beginning of a line that is too long to hold back.
    fn release_line_start(&mut self, out: &mut String) {
        if self.private_key_bytes.is_some() || shape::key_begin(&self.pending).is_some() {
            // No key has lines this long, so mask the whole line instead of tracking the key across
            // its parts.
            let line = std::mem::take(&mut self.pending);
            self.push_line(&line, out);
            self.is_dropping_line = true;
            return;
        }
        let secrets = self.redactor.secrets(&self.pending);
        let kept = shape::MAX_HEAD_BYTES.max(self.redactor.longest_known());
        let Some(edge) = self.pending.len().checked_sub(kept) else {
            return;
        };
        let mut cut = self.pending.floor_char_boundary(edge);
        // Do not cut a secret, or separate it from the text that introduces it, because it may
        // continue in the next piece.
        while let Some(secret) = secrets.iter().find(|s| s.start < cut && cut < s.end) {
            let head = secret.start.saturating_sub(shape::MAX_HEAD_BYTES);
            cut = self.pending.floor_char_boundary(head);
        }
        if cut == 0 {
            mask(&self.pending, &secrets, out);
            self.pending.clear();
            self.is_dropping_line = true;
            return;
        }
        let before = secrets.partition_point(|secret| secret.end <= cut);
        mask(&self.pending[..cut], &secrets[..before], out);
        self.pending.drain(..cut);
    }
}

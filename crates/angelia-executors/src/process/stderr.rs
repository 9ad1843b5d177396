//! The tail of a child's stderr, bounded in size and without colours, for failures that quote it.

use std::{
    borrow::Cow,
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use angelia_core::engine::rules::strip_terminal_codes;
use tokio::io::{AsyncRead, AsyncReadExt};

const MAX_TAIL_BYTES: usize = 64 * 1024;
const MAX_TAIL_LINES: usize = 200;
const READ_BYTES: usize = 8 * 1024;

/// The longest line that is passed to a listener.
const MAX_HEARD_BYTES: usize = 8 * 1024;

/// The tail of a child's stderr; cheap to clone, and readable after the child has exited.
#[derive(Clone, Debug, Default)]
pub struct StderrTail(Arc<Mutex<TailBuffer>>);

impl StderrTail {
    /// Returns at most the last 64 KiB and 200 lines, redacted by `redact`.
    pub fn tail(&self, redact: impl for<'a> FnOnce(&'a str) -> Cow<'a, str>) -> String {
        let text = self.0.lock().unwrap_or_else(PoisonError::into_inner).text();
        // Strip colours before redacting: a colour code in the middle of a secret would hide it.
        redact(&strip_terminal_codes(&text)).into_owned()
    }

    fn push(&self, bytes: &[u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
    }
}

/// Receives each line of a child's stderr, without its line break and without colours.
pub type LineListener = Box<dyn FnMut(&str) + Send>;

/// Reads a pipe to its end into the tail, so that the child never blocks on a full pipe.
pub(super) async fn drain(
    mut pipe: impl AsyncRead + Unpin,
    tail: StderrTail,
    listener: Option<LineListener>,
) {
    let mut chunk = vec![0; READ_BYTES];
    let mut lines = listener.map(|listener| HeardLines { listener, line: Vec::new() });
    // A read error means that the pipe is unusable; treat it like the end of output.
    while let Ok(read @ 1..) = pipe.read(&mut chunk).await {
        tail.push(&chunk[..read]);
        if let Some(lines) = &mut lines {
            lines.push(&chunk[..read]);
        }
    }
    if let Some(lines) = &mut lines {
        lines.end_line();
    }
}

/// Splits a stream into lines for a listener.
struct HeardLines {
    listener: LineListener,
    /// The line so far, cut off after [`MAX_HEARD_BYTES`].
    line: Vec<u8>,
}

impl HeardLines {
    fn push(&mut self, bytes: &[u8]) {
        for (index, part) in bytes.split(|byte| *byte == b'\n').enumerate() {
            if index > 0 {
                self.end_line();
            }
            let room = MAX_HEARD_BYTES.saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..part.len().min(room)]);
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = strip_terminal_codes(&String::from_utf8_lossy(&line)).trim_end().to_owned();
        if !line.is_empty() {
            (self.listener)(&line);
        }
    }
}

#[derive(Debug, Default)]
struct TailBuffer {
    bytes: VecDeque<u8>,
    /// Set if bytes were dropped at the front; the first byte may be in the middle of a word.
    truncated: bool,
}

impl TailBuffer {
    fn push(&mut self, bytes: &[u8]) {
        let bytes = match bytes.len().checked_sub(MAX_TAIL_BYTES) {
            Some(excess @ 1..) => {
                self.truncated = true;
                &bytes[excess..]
            }
            _ => bytes,
        };
        let excess = (self.bytes.len() + bytes.len()).saturating_sub(MAX_TAIL_BYTES);
        if excess > 0 {
            self.truncated = true;
            self.bytes.drain(..excess);
        }
        self.bytes.extend(bytes);
    }

    fn text(&mut self) -> String {
        let mut bytes: &[u8] = self.bytes.make_contiguous();
        if self.truncated {
            bytes = skip_truncated_line(bytes);
        }
        if let Some(start) = start_of_last_lines(bytes) {
            bytes = &bytes[start..];
        }
        String::from_utf8_lossy(bytes).into_owned()
    }
}

/// Skips the truncated first line or, if there is no other line, its first word. Redaction would
/// not recognise a truncated secret.
fn skip_truncated_line(bytes: &[u8]) -> &[u8] {
    let end_of_line = bytes.iter().position(|&b| b == b'\n').filter(|&end| end + 1 < bytes.len());
    let end = end_of_line.or_else(|| bytes.iter().position(u8::is_ascii_whitespace));
    end.map_or(&[], |end| &bytes[end + 1..])
}

/// Returns where the last [`MAX_TAIL_LINES`] lines begin, if there are more lines than that.
fn start_of_last_lines(bytes: &[u8]) -> Option<usize> {
    let ends_with_newline = usize::from(bytes.ends_with(b"\n"));
    memchr::memrchr_iter(b'\n', bytes).nth(MAX_TAIL_LINES - 1 + ends_with_newline).map(|at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail_of(chunks: &[&[u8]]) -> String {
        let tail = StderrTail::default();
        for chunk in chunks {
            tail.push(chunk);
        }
        tail.tail(|text| text.into())
    }

    #[test]
    fn short_output_is_kept_as_it_is() {
        assert_eq!(tail_of(&[]), "");
        assert_eq!(tail_of(&[b"one\ntwo", b"\nhalf"]), "one\ntwo\nhalf");
        assert_eq!(tail_of(&[b"bad \xff byte\n"]), "bad \u{fffd} byte\n");
    }

    #[test]
    fn the_last_200_lines_are_kept() {
        let lines: Vec<String> = (0..300).map(|n| format!("line {n}")).collect();
        for end in ["", "\n"] {
            let kept = tail_of(&[lines.join("\n").as_bytes(), end.as_bytes()]);
            assert_eq!(kept, lines[100..].join("\n") + end);
        }
    }

    #[test]
    fn memory_is_bounded_however_the_bytes_arrive() {
        for chunk in [1000, MAX_TAIL_BYTES, MAX_TAIL_BYTES + 1, 5 * MAX_TAIL_BYTES] {
            let tail = StderrTail::default();
            for _ in 0..10 {
                tail.push(&vec![b'x'; chunk]);
                tail.push(b"\n");
            }
            let ring = tail.0.lock().unwrap();
            assert!(ring.bytes.len() <= MAX_TAIL_BYTES);
            assert!(ring.bytes.capacity() <= 2 * MAX_TAIL_BYTES);
        }
    }

    #[test]
    fn a_line_that_was_cut_into_is_left_out() {
        let mut filler = "x".repeat(MAX_TAIL_BYTES);
        filler.push_str("\nthe end\n");
        assert_eq!(tail_of(&[b"key=sk-secret ", filler.as_bytes()]), "the end\n");
        // There is only one line, and its first word may be a truncated secret.
        let filler = "y ".repeat(MAX_TAIL_BYTES / 2 - 2);
        let kept = tail_of(&[b"sk-secret ", filler.as_bytes()]);
        assert!(kept.starts_with("y y"), "{}", &kept[..20]);
        assert_eq!(tail_of(&[&vec![b'z'; MAX_TAIL_BYTES + 1]]), "");
    }

    #[test]
    fn redaction_sees_the_whole_text() {
        let tail = StderrTail::default();
        tail.push(b"token sk-");
        tail.push(b"123\n");
        assert_eq!(tail.tail(|text| text.replace("sk-123", "***").into()), "token ***\n");
    }

    #[test]
    fn colours_are_left_out_before_secrets_are_looked_for() {
        let line =
            b"\x1b[2m12:00\x1b[0m \x1b[31mERROR\x1b[0m codex: token sk-\x1b[1m123\x1b[0m\r\n";
        assert_eq!(tail_of(&[line]), "12:00 ERROR codex: token sk-123\n");
        let tail = StderrTail::default();
        tail.push(line);
        let redacted = tail.tail(|text| text.replace("sk-123", "***").into());
        assert_eq!(redacted, "12:00 ERROR codex: token ***\n");
    }

    #[tokio::test]
    async fn a_pipe_is_read_to_its_end() {
        let tail = StderrTail::default();
        let input = "line\n".repeat(50_000);
        let heard = Arc::new(Mutex::new(Vec::new()));
        let own = Arc::clone(&heard);
        let listener = move |line: &str| own.lock().unwrap().push(line.to_owned());
        drain(input.as_bytes(), tail.clone(), Some(Box::new(listener))).await;
        assert_eq!(*heard.lock().unwrap(), vec!["line"; 50_000]);
        assert_eq!(tail.tail(|text| text.into()), "line\n".repeat(MAX_TAIL_LINES));
    }
}

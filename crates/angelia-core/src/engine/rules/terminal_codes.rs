//! Removes terminal control sequences from text: colours, cursor movements, titles, bells.

/// Removes escape sequences and control characters from a text, except line breaks and tabs.
pub fn strip_terminal_codes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\x1b' => skip_sequence(&mut rest),
            '\u{9b}' => skip_until(&mut rest, is_final),
            '\n' | '\t' => out.push(c),
            _ if c.is_control() => {}
            _ => out.push(c),
        }
    }
    out
}

/// Skips the rest of an escape sequence whose `ESC` has just been read.
fn skip_sequence(rest: &mut std::str::Chars<'_>) {
    let mut ahead = rest.clone();
    match ahead.next() {
        Some('[') => {
            *rest = ahead;
            skip_until(rest, is_final);
        }
        // A title, link or device string has arbitrary length and ends with a bell or `ESC \`.
        Some(']' | 'P' | '^' | '_' | 'X') => {
            *rest = ahead;
            while let Some(c) = rest.next() {
                if c == '\x07' {
                    return;
                }
                if c == '\x1b' {
                    rest.next();
                    return;
                }
            }
        }
        // A two-character sequence, or a longer one with intermediate characters that select a
        // table.
        Some(c) if (' '..='~').contains(&c) => {
            *rest = ahead;
            if (' '..='/').contains(&c) {
                skip_until(rest, |c| ('0'..='~').contains(&c));
            }
        }
        _ => {}
    }
}

fn is_final(c: char) -> bool {
    ('@'..='~').contains(&c)
}

/// Skips up to and including the final character of a sequence. Stops before a character that
/// cannot be part of a sequence, because the sequence was truncated there.
fn skip_until(rest: &mut std::str::Chars<'_>, ends: impl Fn(char) -> bool) {
    loop {
        let mut ahead = rest.clone();
        match ahead.next() {
            Some(c) if (' '..='~').contains(&c) => {
                *rest = ahead;
                if ends(c) {
                    return;
                }
            }
            _ => return,
        }
    }
}

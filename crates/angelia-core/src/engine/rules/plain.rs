//! Text without what a terminal would obey: colours, cursor movements, titles, bells.

/// What is left of a text when terminal codes and control characters are taken out; line breaks
/// and tabs stay.
pub fn plain(text: &str) -> String {
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

/// Skips what belongs to an escape character that was just read.
fn skip_sequence(rest: &mut std::str::Chars<'_>) {
    let mut ahead = rest.clone();
    match ahead.next() {
        Some('[') => {
            *rest = ahead;
            skip_until(rest, is_final);
        }
        // A title, a link, a device string: as long as its sender likes, to a bell or `ESC \`.
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
        // One more character, or several before it that say which table is meant.
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

/// Skips up to and with the character that ends a sequence. One that cannot be part of any is
/// left where it is: the sequence was cut off.
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

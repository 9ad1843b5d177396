//! Checks the length of functions. It counts braces after blanking out comments and literals: not a
//! parser, but exact enough for code that rustfmt has formatted.

use super::{Problem, SourceFile};

const MAX_FUNCTION_LINES: usize = 100;

pub(crate) fn check(source: &SourceFile) -> Vec<Problem> {
    if !source.path.ends_with(".rs") {
        return Vec::new();
    }
    let code = blank_literals(&source.text);
    let mut problems = Vec::new();
    for (start, name) in functions(&code) {
        let Some(length) = length(&code[start..]) else {
            continue;
        };
        if length > MAX_FUNCTION_LINES {
            let line = line_of(&code, start);
            let message =
                format!("`{name}` has {length} lines; {MAX_FUNCTION_LINES} are the limit");
            problems.push(Problem::new(&source.path, line, message));
        }
    }
    problems
}

/// Returns the offset and the name of each `fn name`.
fn functions(code: &str) -> Vec<(usize, &str)> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    code.match_indices("fn ")
        .filter(|(at, _)| *at == 0 || !is_word(code.as_bytes()[at - 1]))
        .filter_map(|(at, _)| {
            let rest = &code[at + 3..];
            let end = rest.bytes().position(|byte| !is_word(byte)).unwrap_or(rest.len());
            (end > 0).then(|| (at, &rest[..end]))
        })
        .collect()
}

/// Counts the lines from the name to the closing brace. Returns `None` for a declaration without a
/// body.
fn length(code: &str) -> Option<usize> {
    let mut depth = 0;
    let mut brackets = 0;
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets -= 1,
            b';' if depth == 0 && brackets == 0 => return None,
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return Some(line_of(code, at));
                }
            }
            _ => {}
        }
    }
    None
}

fn line_of(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}

/// Replaces comments, strings and character literals with spaces, but keeps newlines.
pub(super) fn blank_literals(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let end = match bytes[at] {
            b'/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            b'/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            b'r' if !follows_word(bytes, at) => raw_string(rest).unwrap_or(0),
            b'"' => string(rest),
            b'\'' => character(rest),
            _ => 0,
        };
        if end == 0 {
            out.push(bytes[at]);
            at += 1;
            continue;
        }
        out.extend(
            bytes[at..at + end].iter().map(|byte| if *byte == b'\n' { b'\n' } else { b' ' }),
        );
        at += end;
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn follows_word(bytes: &[u8], at: usize) -> bool {
    at > 0
        && (bytes[at - 1].is_ascii_alphanumeric() && bytes[at - 1] != b'b' || bytes[at - 1] == b'_')
}

/// Returns the length of a raw string that starts here.
fn raw_string(rest: &str) -> Option<usize> {
    let hashes = rest[1..].bytes().take_while(|byte| *byte == b'#').count();
    let body = rest[1 + hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    Some(2 + hashes + body.find(&close)? + close.len())
}

fn string(rest: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Returns the length of a character literal, or 0 for a lifetime.
fn character(rest: &str) -> usize {
    if rest[1..].starts_with('\\') {
        return rest[2..]
            .char_indices()
            .skip(1)
            .find(|(_, c)| *c == '\'')
            .map_or(0, |(at, _)| at + 3);
    }
    let mut characters = rest[1..].char_indices().skip(1);
    match characters.next() {
        Some((at, '\'')) => at + 2,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let source = SourceFile { path: "a.rs".into(), text: text.into() };
        check(&source).into_iter().map(|problem| problem.message).collect()
    }

    #[test]
    fn counts_from_the_name_to_the_closing_brace() {
        let long = format!("fn short() {{}}\nfn long() {{\n{}}}\n", "    a();\n".repeat(99));
        assert_eq!(problems(&long), ["`long` has 101 lines; 100 are the limit"]);
        let fits = format!("fn fits() {{\n{}}}\n", "    a();\n".repeat(98));
        assert!(problems(&fits).is_empty());
    }

    #[test]
    fn braces_in_literals_and_comments_do_not_count() {
        let text = r##"fn a<'a>(x: &'a str) { let y = '}'; let z = "}"; let s = r#"}"#; /* } */ b('\''); }
            // fn c() {
            trait T { fn d(&self) -> [u8; 2]; }"##;
        let code = blank_literals(text);
        assert_eq!(code.matches('}').count(), 2, "{code}");
        assert_eq!(functions(&code).len(), 2);
        assert!(problems(text).is_empty());
    }
}

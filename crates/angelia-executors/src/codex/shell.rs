//! Extracts a command from the shell invocation that runs it.
//!
//! Codex reports `/bin/bash -lc 'git status'`, where people and a profile's patterns mean
//! `git status`. Anything but a shell with exactly one script is left unchanged, because a command
//! must never look smaller than it is.

use std::borrow::Cow;

const SHELLS: &[&str] = &["bash", "sh", "zsh", "dash", "ksh"];

/// Returns the script of a shell invocation, or else the command line itself.
pub(crate) fn unwrap_script(command: &str) -> Cow<'_, str> {
    match split_words(command).as_deref() {
        Some([shell, flag, script]) if is_shell(shell) && matches!(&**flag, "-lc" | "-c") => {
            Cow::Owned(script.clone())
        }
        _ => Cow::Borrowed(command),
    }
}

fn is_shell(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    SHELLS.contains(&name)
}

/// Splits a command like a shell. Returns `None` if it uses any shell syntax other than quoting.
fn split_words(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = command.chars();
    while let Some(char) = chars.next() {
        match char {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        inner => word.push(inner),
                    }
                }
            }
            '"' => read_double_quoted(&mut chars, word.get_or_insert_default())?,
            '\\' => match chars.next()? {
                '\n' => {}
                escaped => word.get_or_insert_default().push(escaped),
            },
            // All other characters that have a meaning to a shell outside quotes.
            '\n' | '$' | '`' | '&' | '|' | ';' | '<' | '>' | '(' | ')' | '{' | '}' | '*' | '?'
            | '[' | ']' | '~' | '#' | '!' => return None,
            plain => word.get_or_insert_default().push(plain),
        }
    }
    words.extend(word);
    Some(words)
}

fn read_double_quoted(chars: &mut std::str::Chars<'_>, word: &mut String) -> Option<()> {
    loop {
        match chars.next()? {
            '"' => return Some(()),
            '$' | '`' => return None,
            '\\' => match chars.next()? {
                '\n' => {}
                escaped @ ('$' | '`' | '"' | '\\') => word.push(escaped),
                other => word.extend(['\\', other]),
            },
            inner => word.push(inner),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_shell_with_one_script_is_its_script() {
        let cases = [
            ("/bin/bash -lc 'touch made.txt && echo ok'", "touch made.txt && echo ok"),
            ("/bin/bash -lc cat", "cat"),
            ("bash -c \"echo \\\"hi\\\"\"", "echo \"hi\""),
            ("/bin/zsh -lc 'it'\"'\"'s'", "it's"),
            ("/bin/zsh -lc 'it'\\''s'", "it's"),
            ("/bin/bash -lc 'a\nb'", "a\nb"),
        ];
        for (command, expected) in cases {
            assert_eq!(unwrap_script(command), expected, "{command}");
        }
    }

    #[test]
    fn whatever_else_is_left_alone() {
        for command in [
            "",
            "ls",
            "/bin/bash -lc 'a' 'b'",
            "/bin/bash -lc 'a'; rm x",
            "/bin/bash -lc \"$(rm x)\"",
            "/bin/bash -lc 'a",
            "/bin/bash --rcfile x",
            "python -c 'x'",
            "/bin/bash -lc 'a' > /etc/x",
        ] {
            assert_eq!(unwrap_script(command), command);
        }
    }

    proptest! {
        /// Any script that is quoted for a shell is restored unchanged.
        #[test]
        fn quoting_is_undone(text in ".*") {
            let quoted = format!("/bin/bash -lc '{}'", text.replace('\'', r"'\''"));
            prop_assert_eq!(unwrap_script(&quoted), text.as_str());
        }

        #[test]
        fn any_text_is_survived(text in "[a\"'\\\\$ \n-]{0,20}|.*") {
            let whole = format!("bash -lc {text}");
            let _any = unwrap_script(&whole);
        }
    }
}

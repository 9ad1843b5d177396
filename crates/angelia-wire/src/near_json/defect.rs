//! Finds the first place where text is not valid JSON, and names the field and the error. The
//! search does not recurse, so any nesting depth is fine.

use std::fmt::Write as _;

/// The first place where text is not valid JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonDefect {
    /// The field, such as `messages[0].content`; empty for the value as a whole.
    pub path: String,
    pub what: String,
}

/// Returns the first defect, or `None` if the text is one JSON value.
pub fn find_defect(json: &[u8]) -> Option<JsonDefect> {
    let mut walk = DefectSearch { json, at: 0, containers: Vec::new() };
    let found = walk.run();
    found.err().map(|what| JsonDefect { path: walk.path(), what })
}

/// An open object or list.
enum Container {
    /// The key whose value is being read.
    Object(String),
    List(usize),
}

struct DefectSearch<'a> {
    json: &'a [u8],
    at: usize,
    containers: Vec<Container>,
}

impl DefectSearch<'_> {
    fn run(&mut self) -> Result<(), String> {
        loop {
            self.skip_blanks();
            let is_open = match self.peek() {
                Some(b'{') => self.open_object()?,
                Some(b'[') => self.open_list(),
                _ => {
                    self.read_scalar()?;
                    false
                }
            };
            if !is_open && self.close_containers()? {
                return Ok(());
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.json.get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Opens an object and reads its first key. Returns `false` if the object is empty.
    fn open_object(&mut self) -> Result<bool, String> {
        self.at += 1;
        self.skip_blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(false);
        }
        let key = self.read_key()?;
        self.containers.push(Container::Object(key));
        Ok(true)
    }

    fn open_list(&mut self) -> bool {
        self.at += 1;
        self.skip_blanks();
        if self.peek() == Some(b']') {
            self.at += 1;
            return false;
        }
        self.containers.push(Container::List(0));
        true
    }

    /// After a value: closes the containers that end here and advances to the next value. Returns
    /// `true` at the end of the text.
    fn close_containers(&mut self) -> Result<bool, String> {
        loop {
            self.skip_blanks();
            let Some(container) = self.containers.last_mut() else {
                return match self.peek() {
                    None => Ok(true),
                    Some(_) => Err("there is more after the end of the JSON value".to_owned()),
                };
            };
            let end = if matches!(container, Container::Object(_)) { b'}' } else { b']' };
            match self.json.get(self.at) {
                Some(byte) if *byte == end => {
                    self.at += 1;
                    self.containers.pop();
                }
                Some(b',') => {
                    self.at += 1;
                    return self.next_value(end).map(|()| false);
                }
                Some(_) => {
                    return Err(format!(
                        "a comma or `{}` is missing after this value",
                        char::from(end)
                    ));
                }
                None => return Err(UNEXPECTED_END.to_owned()),
            }
        }
    }

    fn next_value(&mut self, end: u8) -> Result<(), String> {
        self.skip_blanks();
        if self.peek() == Some(end) {
            return Err(format!("there is a comma before `{}`; remove it", char::from(end)));
        }
        match self.containers.last_mut() {
            Some(Container::List(index)) => *index += 1,
            Some(Container::Object(_)) => {
                let key = self.read_key()?;
                if let Some(Container::Object(current)) = self.containers.last_mut() {
                    *current = key;
                }
            }
            None => {}
        }
        Ok(())
    }

    fn read_key(&mut self) -> Result<String, String> {
        if self.peek() != Some(b'"') {
            return Err(match self.peek() {
                None => UNEXPECTED_END.to_owned(),
                Some(_) => "the next key is not in double quotes".to_owned(),
            });
        }
        let start = self.at;
        self.read_string()?;
        let key = serde_json::from_slice(&self.json[start..self.at]).unwrap_or_default();
        self.skip_blanks();
        if self.peek() != Some(b':') {
            return Err(format!("a colon is missing after the key `{key}`"));
        }
        self.at += 1;
        Ok(key)
    }

    fn read_string(&mut self) -> Result<(), String> {
        self.at += 1;
        loop {
            match self.peek() {
                None => return Err(UNEXPECTED_END.to_owned()),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.read_escape()?,
                Some(byte @ 0..=0x1f) => {
                    return Err(format!(
                        "the control character U+{byte:04X} in a string must be written as an escape"
                    ));
                }
                Some(_) => self.at += 1,
            }
        }
    }

    fn read_escape(&mut self) -> Result<(), String> {
        let escape = self.json.get(self.at + 1).copied();
        match escape {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let digits = self.json.get(self.at + 2..self.at + 6);
                if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                    return Err(r"a `\u` in a string needs four hexadecimal digits".to_owned());
                }
                self.at += 6;
            }
            Some(byte) => {
                let character = char::from(byte).escape_default();
                return Err(format!(r"`\{character}` in a string is not an escape of JSON"));
            }
            None => return Err(UNEXPECTED_END.to_owned()),
        }
        Ok(())
    }

    fn read_scalar(&mut self) -> Result<(), String> {
        match self.peek() {
            None => return Err(UNEXPECTED_END.to_owned()),
            Some(b'"') => return self.read_string(),
            Some(b'\'') => return Err("strings need double quotes".to_owned()),
            Some(_) => {}
        }
        let ends = |byte: &u8| b" \t\n\r,:]}[{\"'".contains(byte);
        let rest = &self.json[self.at..];
        let length = rest.iter().position(ends).unwrap_or(rest.len());
        let word = String::from_utf8_lossy(&rest[..length]);
        match &*word {
            "true" | "false" | "null" => {}
            "NaN" | "Infinity" | "-Infinity" | "+Infinity" | "nan" | "inf" | "-inf" => {
                return Err(format!("{word} is not a number in JSON; send a number or null"));
            }
            "" => return Err("a value is missing".to_owned()),
            word if serde_json::from_str::<f64>(word).is_ok() => {}
            word if is_too_large(word) => {
                return Err(format!("the number {} is too large", shorten(word)));
            }
            word => return Err(format!("`{}` is not a JSON value", shorten(word))),
        }
        self.at += length;
        Ok(())
    }

    fn path(&self) -> String {
        let mut path = String::new();
        for container in &self.containers {
            match container {
                Container::Object(key) if path.is_empty() => path.push_str(key),
                Container::Object(key) => _ = write!(path, ".{key}"),
                Container::List(index) => _ = write!(path, "[{index}]"),
            }
        }
        path
    }
}

const UNEXPECTED_END: &str = "the JSON ends too early";

/// Reports whether a word is written like a number, so that only its size can be wrong.
fn is_too_large(word: &str) -> bool {
    word.parse::<f64>().is_ok()
        && word.starts_with(|first: char| first == '-' || first.is_ascii_digit())
}

/// Returns the beginning of a word, for use in a message.
fn shorten(word: &str) -> String {
    word.chars().take(32).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_field_and_the_reason_are_named() {
        let table = [
            (r#"{"a":1,"temperature":NaN}"#, "temperature", "NaN is not a number"),
            (
                r#"{"messages":[{"role":"user"},{"content":[{"n":-Infinity}]}]}"#,
                "messages[1].content[0].n",
                "-Infinity",
            ),
            (r#"{"a":{"b":'x'}}"#, "a.b", "double quotes"),
            ("{\"a\":[\"x\ny\"]}", "a[0]", "U+000A"),
            (r#"{"a":"\x"}"#, "a", r"`\x`"),
            (r#"{"a":"\u12g4"}"#, "a", "hexadecimal"),
            (r#"{"a":1e999}"#, "a", "too large"),
            (r#"{"a":[1,2,]}"#, "a[1]", "comma before `]`"),
            (r#"{"a":1,}"#, "a", "comma before `}`"),
            (r#"{"a":1 "b":2}"#, "a", "comma or `}`"),
            (r#"{"a":True}"#, "a", "`True`"),
            (r#"{"a":}"#, "a", "missing"),
            (r#"{"a":[1,{"b":"#, "a[1].b", "too early"),
            (r#"{"a":"x"#, "a", "too early"),
            (r"{a:1}", "", "double quotes"),
            ("{} {}", "", "more after"),
            ("hello", "", "`hello`"),
            ("", "", "too early"),
        ];
        for (json, path, what) in table {
            let defect = find_defect(json.as_bytes()).unwrap();
            assert_eq!(defect.path, path, "{json}: {defect:?}");
            assert!(defect.what.contains(what), "{json}: {defect:?}");
        }
        let deep = "[".repeat(100_000);
        assert!(find_defect(deep.as_bytes()).is_some());
    }

    proptest! {
        #[test]
        fn json_has_no_defect_and_anything_ends(text in any::<String>(), cut in 0_usize..64) {
            let value = serde_json::json!({"a": [text, 1.5, null, {"b": [true, {}]}], "c": []});
            let json = value.to_string();
            prop_assert_eq!(find_defect(json.as_bytes()), None);
            let cut = cut.min(json.len() - 1);
            prop_assert!(find_defect(&json.as_bytes()[..cut]).is_some());
            let _any = find_defect(text.as_bytes());
        }
    }
}

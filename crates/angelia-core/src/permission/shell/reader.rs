//! Reads the words of a script: quotes, expansions and substitutions.

use super::{
    Unparsed,
    here_documents::AwaitedDocument,
    parser::End,
    word::{Script, Word},
};

/// Scripts beyond this are not parsed.
const MAX_CHARS: usize = 200_000;
/// Substitutions and subshells inside each other.
const MAX_DEPTH: usize = 40;

/// Reads one script; `parser.rs` has the methods for commands.
pub(super) struct Reader {
    source: Vec<char>,
    pub(super) position: usize,
    pub(super) depth: usize,
    /// Here-documents whose text starts after the next newline.
    pub(super) awaited: Vec<AwaitedDocument>,
    /// An enclosing construct awaits a here-document, so a newline in here would be ambiguous.
    pub(super) newline_is_ambiguous: bool,
    /// The number of here-documents before the substitution that is being read.
    documents_before: Option<usize>,
    pub(super) script: Script,
}

/// The context of a word: some characters end a word only in commands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WordPlace {
    Command,
    /// Between `[[` and `]]`.
    Condition,
}

impl Reader {
    pub(super) fn new(text: &str, depth: usize) -> Result<Self, Unparsed> {
        if depth > MAX_DEPTH {
            return Err("it is nested too deeply");
        }
        let source: Vec<char> = text.chars().collect();
        if source.len() > MAX_CHARS {
            return Err("it is too long");
        }
        if source.contains(&'\0') || source.contains(&'\r') {
            return Err("it has control characters");
        }
        Ok(Self {
            source,
            position: 0,
            depth,
            awaited: Vec::new(),
            newline_is_ambiguous: false,
            documents_before: None,
            script: Script::default(),
        })
    }

    /// The next character. Skips a backslash with a newline, which the shell removes.
    pub(super) fn peek(&mut self) -> Option<char> {
        while self.source.get(self.position) == Some(&'\\')
            && self.source.get(self.position + 1) == Some(&'\n')
        {
            self.position += 2;
        }
        self.source.get(self.position).copied()
    }

    /// The character after the next one.
    pub(super) fn peek_second(&mut self) -> Option<char> {
        self.peek()?;
        let at = self.position;
        self.position += 1;
        let second = self.peek();
        self.position = at;
        second
    }

    /// The next character as it is, also a backslash before a newline.
    pub(super) fn next_raw(&mut self) -> Option<char> {
        let c = self.source.get(self.position).copied()?;
        self.position += 1;
        Some(c)
    }

    pub(super) fn take(&mut self, expected: char) -> bool {
        let found = self.peek() == Some(expected);
        if found {
            self.position += 1;
        }
        found
    }

    pub(super) fn skip_comment(&mut self) {
        while self.source.get(self.position).is_some_and(|c| *c != '\n') {
            self.position += 1;
        }
    }

    /// Skips spaces, tabs and comments.
    pub(super) fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t') => self.position += 1,
                Some('#') => self.skip_comment(),
                _ => return,
            }
        }
    }

    /// The source without the backslashes before newlines, which the shell removes.
    pub(super) fn source_between(&self, start: usize, end: usize) -> String {
        let text: String = self.source.get(start..end).unwrap_or_default().iter().collect();
        text.replace("\\\n", "")
    }

    pub(super) fn has_newline_since(&self, start: usize) -> bool {
        self.source.get(start..self.position).is_some_and(|text| text.contains(&'\n'))
    }

    /// Reads a word. Returns an empty one if none starts here.
    pub(super) fn read_word(&mut self, place: WordPlace) -> Result<Word, Unparsed> {
        let mut word = Word::default();
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\n' => break,
                '<' | '>' if self.peek_second() == Some('(') => {
                    self.position += 1;
                    self.read_substitution()?;
                    word.push_hole(false, false);
                }
                ';' | '&' | '|' | '(' | ')' | '<' | '>' if place == WordPlace::Command => break,
                '\\' => {
                    self.position += 1;
                    word.push(self.next_raw().unwrap_or('\\'), true);
                }
                '\'' => self.read_single_quotes(&mut word)?,
                '"' => {
                    self.position += 1;
                    word.push_quotes();
                    self.read_quoted_text(&mut word, Some('"'))?;
                }
                '$' => self.read_dollar(&mut word, false)?,
                '`' => self.read_backquotes(&mut word, false)?,
                c => {
                    self.position += 1;
                    word.push(c, false);
                }
            }
        }
        Ok(word)
    }

    fn read_single_quotes(&mut self, word: &mut Word) -> Result<(), Unparsed> {
        self.position += 1;
        word.push_quotes();
        loop {
            match self.next_raw() {
                None => return Err("a quote is not closed"),
                Some('\'') => return Ok(()),
                Some(c) => word.push(c, true),
            }
        }
    }

    /// Reads the content of double quotes, or the rest of a here-document.
    pub(super) fn read_quoted_text(
        &mut self,
        word: &mut Word,
        end: Option<char>,
    ) -> Result<(), Unparsed> {
        loop {
            match self.peek() {
                None if end.is_none() => return Ok(()),
                None => return Err("a quote is not closed"),
                Some(c) if Some(c) == end => {
                    self.position += 1;
                    return Ok(());
                }
                Some('\\') => {
                    self.position += 1;
                    match self.peek() {
                        Some(c @ ('$' | '`' | '\\')) => {
                            self.position += 1;
                            word.push(c, true);
                        }
                        Some(c) if Some(c) == end => {
                            self.position += 1;
                            word.push(c, true);
                        }
                        _ => word.push('\\', true),
                    }
                }
                Some('$') => self.read_dollar(word, true)?,
                Some('`') => self.read_backquotes(word, end.is_some())?,
                Some(c) => {
                    self.position += 1;
                    word.push(c, true);
                }
            }
        }
    }

    fn read_dollar(&mut self, word: &mut Word, quoted: bool) -> Result<(), Unparsed> {
        self.position += 1;
        match self.peek() {
            Some('(') if self.peek_second() == Some('(') => {
                self.position += 2;
                self.read_arithmetic()?;
                word.push_hole(quoted, true);
            }
            Some('(') => {
                self.read_substitution()?;
                word.push_hole(quoted, false);
            }
            Some('{') => {
                self.position += 1;
                let is_one_word = self.read_parameter(quoted)?;
                word.push_hole(quoted && is_one_word, false);
            }
            Some('[') => return Err("`$[` means different things in different shells"),
            Some('\'') if !quoted => {
                self.position += 1;
                self.skip_escaped_quotes()?;
                word.push_hole(true, false);
            }
            Some('"') if !quoted => {
                self.position += 1;
                word.push_hole(true, false);
                self.read_quoted_text(word, Some('"'))?;
            }
            Some('#' | '?' | '$' | '!') => {
                self.position += 1;
                word.push_hole(quoted, true);
            }
            Some('@' | '*') => {
                self.position += 1;
                word.push_hole(false, false);
            }
            Some(c) if c.is_ascii_digit() || c == '-' => {
                self.position += 1;
                word.push_hole(quoted, false);
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                self.read_name();
                word.push_hole(quoted, false);
            }
            _ => word.push('$', quoted),
        }
        Ok(())
    }

    fn read_name(&mut self) -> String {
        let mut name = String::new();
        while let Some(c) = self.peek().filter(|c| c.is_ascii_alphanumeric() || *c == '_') {
            self.position += 1;
            name.push(c);
        }
        name
    }

    /// Skips `$'…'`. Shells that do not know it end it at the first quote, so an escaped quote
    /// inside is refused.
    fn skip_escaped_quotes(&mut self) -> Result<(), Unparsed> {
        let mut last = ' ';
        loop {
            match self.next_raw() {
                None => return Err("a quote is not closed"),
                Some('\'') if last == '\\' => return Err("`$'…'` has an escaped quote"),
                Some('\'') => return Ok(()),
                Some(c) => last = c,
            }
        }
    }

    /// Reads `(commands)` with the parentheses.
    fn read_substitution(&mut self) -> Result<(), Unparsed> {
        self.position += 1;
        let outer = std::mem::take(&mut self.awaited);
        let was_ambiguous = self.newline_is_ambiguous;
        self.newline_is_ambiguous |= !outer.is_empty();
        let outer_documents = self.documents_before.replace(self.script.here_documents.len());
        self.read_nested(End::Parenthesis)?;
        self.documents_before = outer_documents;
        if !self.awaited.is_empty() {
            return Err("a here-document has no text");
        }
        self.awaited = outer;
        self.newline_is_ambiguous = was_ambiguous;
        Ok(())
    }

    /// Whether the substitution that is being read has a here-document.
    pub(super) fn has_document_in_substitution(&self) -> bool {
        self.documents_before.is_some_and(|before| self.script.here_documents.len() > before)
    }

    /// Reads commands up to `end`, one level deeper.
    pub(super) fn read_nested(&mut self, end: End) -> Result<(), Unparsed> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("it is nested too deeply");
        }
        self.read_list(end)?;
        if end == End::Parenthesis && !self.take(')') {
            return Err("a parenthesis is not closed");
        }
        self.depth -= 1;
        Ok(())
    }

    /// Reads an arithmetic expression up to its `))`, and notes the variables in it.
    pub(super) fn read_arithmetic(&mut self) -> Result<(), Unparsed> {
        let start = self.position;
        let mut open = 0_usize;
        loop {
            match self.peek() {
                None => return Err("an arithmetic expression is not closed"),
                Some('(') => {
                    open += 1;
                    self.position += 1;
                }
                Some(')') if open == 0 => {
                    if self.peek_second() != Some(')') {
                        return Err("`((` is ambiguous here");
                    }
                    self.note_arithmetic(start, self.position);
                    self.peek();
                    self.position += 1;
                    self.peek();
                    self.position += 1;
                    return Ok(());
                }
                Some(')') => {
                    open -= 1;
                    self.position += 1;
                }
                Some('\'' | '"' | '\\') => return Err("an arithmetic expression has quotes"),
                Some('$') => {
                    let mut unused = Word::default();
                    self.read_dollar(&mut unused, true)?;
                }
                Some('`') => self.read_backquotes(&mut Word::default(), false)?,
                Some(_) => self.position += 1,
            }
        }
    }

    /// Notes the variables of an expression, and `1` for positional parameters.
    fn note_arithmetic(&mut self, start: usize, end: usize) {
        let text = self.source_between(start, end);
        self.note_arithmetic_text(&text);
    }

    pub(super) fn note_arithmetic_text(&mut self, text: &str) {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        for name in text.split(|c| !is_name(c)).filter(|name| !name.is_empty()) {
            if !name.starts_with(|c: char| c.is_ascii_digit()) {
                self.script.arithmetic_names.push(name.to_owned());
            }
        }
        let mut after = text.split('$').skip(1);
        if after.any(|rest| {
            rest.starts_with(['@', '*', '(', '`'])
                || rest
                    .trim_start_matches('{')
                    .starts_with(|c: char| c.is_ascii_digit() || c == '!')
        }) {
            self.script.arithmetic_names.push("1".to_owned());
        }
    }

    /// Reads the rest of `${…}`. Returns whether it becomes one word when it is quoted.
    fn read_parameter(&mut self, quoted: bool) -> Result<bool, Unparsed> {
        if matches!(self.peek(), Some('(' | ' ' | '\t' | '\n' | '|')) {
            return Err("`${` is followed by something that not every shell knows");
        }
        let start = self.position;
        let mut unused = Word::default();
        loop {
            match self.peek() {
                None => return Err("`${` is not closed"),
                Some('}') => break,
                Some('\\') => {
                    self.position += 1;
                    self.next_raw();
                }
                Some('\'') if quoted => return Err("`${…}` has a quote inside quotes"),
                Some('\'') => self.read_single_quotes(&mut unused)?,
                Some('"') => {
                    self.position += 1;
                    self.read_quoted_text(&mut unused, Some('"'))?;
                }
                Some('$') => self.read_dollar(&mut unused, quoted)?,
                Some('`') => self.read_backquotes(&mut unused, quoted)?,
                Some('<' | '>') if self.peek_second() == Some('(') => {
                    self.position += 1;
                    self.read_substitution()?;
                }
                Some(_) => self.position += 1,
            }
        }
        let text = self.source_between(start, self.position);
        self.position += 1;
        if text.ends_with("@P") || text.ends_with("@E") {
            return Err("`${…@P}` evaluates text");
        }
        let name: String =
            text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let rest = &text[name.len()..];
        if rest.starts_with('=') || rest.starts_with(":=") {
            self.script.text_names.push(name);
        } else if rest.starts_with('[') || name.is_empty() && text.starts_with('!') {
            self.note_arithmetic_text(&text);
        } else if rest.starts_with(':') && !rest[1..].starts_with(['-', '+', '?']) {
            self.note_arithmetic_text(rest);
        }
        Ok(!text.contains('@') && !text.contains('*'))
    }

    fn read_backquotes(&mut self, word: &mut Word, in_quotes: bool) -> Result<(), Unparsed> {
        self.position += 1;
        let mut inner = String::new();
        // dash and bash remove a backslash with a newline before they look at the script between the
        // backquotes, even where that script quotes them. POSIX leaves them to the script. Both
        // readings count.
        let mut joined = String::new();
        loop {
            let (first, second) = match self.next_raw() {
                None => return Err("a backquote is not closed"),
                Some('`') => break,
                Some('\\') => match self.next_raw() {
                    Some(c @ ('$' | '`' | '\\')) => (c, None),
                    Some('"') if in_quotes => ('"', None),
                    Some('\n') => {
                        inner.push_str("\\\n");
                        continue;
                    }
                    Some(c) => ('\\', Some(c)),
                    None => return Err("a backquote is not closed"),
                },
                Some(c) => (c, None),
            };
            for text in [&mut inner, &mut joined] {
                text.push(first);
                text.extend(second);
            }
        }
        self.include(&inner)?;
        if joined != inner {
            self.include(&joined)?;
        }
        word.push_hole(in_quotes, false);
        Ok(())
    }

    /// Parses another script that runs as a part of this one.
    fn include(&mut self, text: &str) -> Result<(), Unparsed> {
        let mut inner = Self::new(text, self.depth + 1)?;
        inner.read_script()?;
        self.absorb(inner.script);
        Ok(())
    }

    pub(super) fn absorb(&mut self, inner: Script) {
        let first = self.script.here_documents.len();
        self.script.here_documents.extend(inner.here_documents);
        self.script.commands.extend(inner.commands.into_iter().map(|mut command| {
            command.shift_here_documents(first);
            command
        }));
        self.script.arithmetic_names.extend(inner.arithmetic_names);
        self.script.text_names.extend(inner.text_names);
    }
}

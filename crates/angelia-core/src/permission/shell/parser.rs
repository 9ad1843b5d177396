//! Reads the commands of a script. Keywords only say where the next command starts, because every
//! command counts, whether or not a condition lets it run.

use super::{
    Unparsed,
    assignment::{is_array_assignment, split_assignment},
    here_documents::AwaitedDocument,
    reader::{Reader, WordPlace},
    word::{Assignment, Piece, Redirect, RedirectKind, Script, SimpleCommand, Word},
};

/// The token that ends a list of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Script,
    Parenthesis,
    /// `;;` and its like, or `esac`.
    CaseItem,
}

#[derive(PartialEq, Eq)]
enum ListStep {
    Continue,
    Ended,
}

/// Keywords after which a command starts. A command can also start after the closing ones, because
/// some shells allow it.
const KEYWORDS: [&str; 16] = [
    "if", "then", "elif", "else", "fi", "while", "until", "do", "done", "!", "{", "}", "always",
    "end", "begin", "not",
];

pub(super) fn is_keyword(text: &str) -> bool {
    KEYWORDS.contains(&text)
}

/// Keywords with a grammar of their own.
pub(super) fn starts_construct(text: &str) -> bool {
    matches!(text, "for" | "select" | "foreach" | "case" | "function" | "coproc" | "[[" | "repeat")
}

/// Parses a script. See the parent module for what the result promises.
pub(crate) fn parse(text: &str) -> Result<Script, Unparsed> {
    let mut reader = Reader::new(text, 0)?;
    reader.read_script()?;
    Ok(reader.script)
}

impl Reader {
    pub(super) fn read_script(&mut self) -> Result<(), Unparsed> {
        self.read_list(End::Script)?;
        // A here-document without a text is empty.
        self.read_here_documents()
    }

    /// Reads commands up to `end`, which is not consumed.
    pub(super) fn read_list(&mut self, end: End) -> Result<(), Unparsed> {
        loop {
            self.skip_blanks();
            let Some(c) = self.peek() else {
                return if end == End::Script { Ok(()) } else { Err("a construct is not closed") };
            };
            match c {
                '\n' => {
                    self.position += 1;
                    self.read_here_documents()?;
                }
                ';' => {
                    if matches!(self.peek_second(), Some(';' | '&' | '|')) {
                        return match end {
                            End::CaseItem => Ok(()),
                            _ => Err("`;;` stands outside `case`"),
                        };
                    }
                    // bash 5.2 loses it there, and runs two commands as one.
                    if self.has_document_in_substitution() {
                        return Err("`;` follows a here-document in a substitution");
                    }
                    self.position += 1;
                }
                // `&>file` too: in some shells it is `&` and `>file`.
                '&' | '|' => self.position += 1,
                '(' if self.peek_second() == Some('(') => self.read_double_parentheses()?,
                '(' => {
                    self.position += 1;
                    self.read_nested(End::Parenthesis)?;
                }
                ')' if end == End::Parenthesis => return Ok(()),
                ')' => return Err("a parenthesis is not opened"),
                _ => {
                    if self.read_command(end)? == ListStep::Ended {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Reads `((…))`, which is arithmetic in some shells and two subshells in others.
    fn read_double_parentheses(&mut self) -> Result<(), Unparsed> {
        let start = self.position;
        self.peek();
        self.position += 1;
        self.peek();
        self.position += 1;
        self.read_arithmetic()?;
        self.position = start;
        self.peek();
        self.position += 1;
        self.read_nested(End::Parenthesis)
    }

    fn read_command(&mut self, end: End) -> Result<ListStep, Unparsed> {
        let start = self.position;
        let word = self.read_word(WordPlace::Command)?;
        match word.bare() {
            Some("esac") if end == End::CaseItem => {
                self.position = start;
                return Ok(ListStep::Ended);
            }
            Some(keyword) if is_keyword(keyword) => {}
            Some("time") => {
                self.skip_blanks();
                // With options it may be the program of that name, whose options are others.
                if self.peek() == Some('-') {
                    self.position = start;
                    self.read_simple_command()?;
                }
            }
            Some("coproc" | "repeat") => return Err("it uses a construct that is not supported"),
            Some("function") => self.read_function()?,
            Some("for" | "select" | "foreach") => self.read_for()?,
            Some("case") => self.read_case()?,
            Some("[[") => self.read_condition()?,
            _ => {
                self.position = start;
                self.read_simple_command()?;
            }
        }
        Ok(ListStep::Continue)
    }

    fn read_function(&mut self) -> Result<(), Unparsed> {
        self.skip_blanks();
        self.read_word(WordPlace::Command)?;
        self.skip_blanks();
        if self.take('(') {
            self.skip_blanks();
            if !self.take(')') {
                return Err("a function has parameters");
            }
            self.skip_blanks();
        }
        match self.peek() {
            Some('{' | '(' | '\n') => Ok(()),
            _ => Err("a function has no body"),
        }
    }

    fn read_for(&mut self) -> Result<(), Unparsed> {
        self.skip_blanks();
        if self.peek() == Some('(') {
            return match self.peek_second() {
                Some('(') => self.read_double_parentheses(),
                _ => Err("a loop has no variable"),
            };
        }
        let name = self.read_word(WordPlace::Command)?;
        let name = name.bare().ok_or("a loop has no variable")?.to_owned();
        self.script.text_names.push(name);
        self.skip_newlines()?;
        let start = self.position;
        let next = self.read_word(WordPlace::Command)?;
        match next.bare() {
            Some("in") => {}
            // `for x; do` and `for x do`; in some shells also `for x (words)`.
            None if next.is_empty() => return Ok(()),
            Some("do") => {
                self.position = start;
                return Ok(());
            }
            _ => return Err("a loop has several variables"),
        }
        loop {
            self.skip_blanks();
            match self.peek() {
                None | Some('\n' | ';' | '&' | '|' | ')') => return Ok(()),
                Some('<' | '>' | '(') => return Err("a loop has an operator in its list"),
                Some(_) => {
                    self.read_word(WordPlace::Command)?;
                }
            }
        }
    }

    fn skip_newlines(&mut self) -> Result<(), Unparsed> {
        loop {
            self.skip_blanks();
            if !self.take('\n') {
                return Ok(());
            }
            self.read_here_documents()?;
        }
    }

    fn read_case(&mut self) -> Result<(), Unparsed> {
        self.skip_blanks();
        self.read_word(WordPlace::Command)?;
        self.skip_newlines()?;
        if self.read_word(WordPlace::Command)?.bare() != Some("in") {
            return Err("`case` has no `in`");
        }
        loop {
            self.skip_newlines()?;
            let start = self.position;
            if self.read_word(WordPlace::Command)?.bare() == Some("esac") {
                return Ok(());
            }
            self.position = start;
            self.take('(');
            loop {
                self.skip_blanks();
                if self.read_word(WordPlace::Command)?.is_empty() {
                    return Err("`case` has no pattern");
                }
                self.skip_blanks();
                if self.take(')') {
                    break;
                }
                if !self.take('|') {
                    return Err("a pattern of `case` is not closed");
                }
            }
            self.read_nested(End::CaseItem)?;
            // `;;`, `;&`, `;;&` or `;|`; or `esac`, which the next round reads.
            if self.take(';') {
                if self.take(';') {
                    self.take('&');
                } else if !self.take('&') {
                    self.take('|');
                }
            }
        }
    }

    /// Reads from `[[` to `]]`. A shell that does not know it runs what follows an operator or a
    /// newline as commands, so those words count as commands too.
    fn read_condition(&mut self) -> Result<(), Unparsed> {
        let start = self.position;
        let mut command = SimpleCommand { words: vec![Word::known("[[")], ..Default::default() };
        loop {
            self.skip_blanks();
            match self.peek() {
                None => return Err("`[[` is not closed"),
                Some('\n') => {
                    self.position += 1;
                    self.read_here_documents()?;
                    self.script.commands.push(std::mem::take(&mut command));
                }
                Some('(' | ')' | '&' | '|' | ';') => {
                    self.position += 1;
                    self.script.commands.push(std::mem::take(&mut command));
                }
                Some('<') if self.peek_second() == Some('<') => {
                    return Err("`<<` stands inside `[[`");
                }
                Some('<' | '>') if self.peek_second() != Some('(') => {
                    // A comparison, or a redirection whose target is no word of the command.
                    self.position += 1;
                    self.skip_blanks();
                    let target = self.read_word(WordPlace::Condition)?;
                    if first_operator(&target).is_some() || target.bare() == Some("]]") {
                        return Err("`[[` has an unusual comparison");
                    }
                }
                Some(_) => {
                    let word = self.read_word(WordPlace::Condition)?;
                    let is_end = word.bare() == Some("]]");
                    // A regular expression may have operators after a parenthesis. Without one, a
                    // shell that does not know `[[` would end the command there.
                    match first_operator(&word) {
                        None => command.words.push(word),
                        Some('(') => command.words.push(Word::hole(true)),
                        Some(_) => return Err("an operator stands inside a word of `[[`"),
                    }
                    if is_end {
                        break;
                    }
                }
            }
        }
        self.script.commands.push(command);
        let text = self.source_between(start, self.position);
        let compares = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v"];
        if text.split_whitespace().any(|word| compares.contains(&word)) {
            self.note_arithmetic_text(&text);
        }
        Ok(())
    }

    fn read_simple_command(&mut self) -> Result<(), Unparsed> {
        let mut command = SimpleCommand::default();
        loop {
            self.skip_blanks();
            match self.peek() {
                None | Some('\n' | ';' | '&' | '|' | ')') => break,
                Some('(') => return Err("a parenthesis stands inside a command"),
                Some('<' | '>') if self.peek_second() != Some('(') => {
                    let redirect = self.read_redirect()?;
                    command.redirects.push(redirect);
                }
                Some(_) => {
                    if self.read_command_word(&mut command)? {
                        // A function definition; its body follows.
                        return Ok(());
                    }
                }
            }
        }
        if !(command.words.is_empty()
            && command.assignments.is_empty()
            && command.redirects.is_empty())
        {
            self.script.commands.push(command);
        }
        Ok(())
    }

    /// Reads a word of a command. Returns whether it was the name of a function definition.
    fn read_command_word(&mut self, command: &mut SimpleCommand) -> Result<bool, Unparsed> {
        let word = self.read_word(WordPlace::Command)?;
        match self.peek() {
            // `2>file` and `{fd}>file`
            Some('<' | '>') if is_descriptor(&word) => return Ok(false),
            Some('(') => {
                if is_array_assignment(&word) {
                    self.read_array()?;
                    let assignment = split_assignment(&word);
                    if let Some((name, _)) = assignment {
                        let value = Word::hole(true);
                        command.assignments.push(Assignment { name, value });
                    }
                    return Ok(false);
                }
                let is_first = command.words.is_empty() && command.assignments.is_empty();
                self.position += 1;
                self.skip_blanks();
                if is_first && self.take(')') {
                    return Ok(true);
                }
                return Err("a parenthesis stands inside a word");
            }
            _ => {}
        }
        if command.words.is_empty()
            && let Some((name, value)) = split_assignment(&word)
        {
            if name.contains('[') {
                let subscript = name.clone();
                self.note_arithmetic_text(&subscript);
                if word.pieces.len() > 1 || name.contains(['$', '`', '"', '\'']) {
                    self.script.arithmetic_names.push("1".to_owned());
                }
            }
            let name = name.split('[').next().unwrap_or_default().to_owned();
            command.assignments.push(Assignment { name, value });
        } else {
            command.words.push(word);
        }
        Ok(false)
    }

    fn read_array(&mut self) -> Result<(), Unparsed> {
        self.take('(');
        loop {
            self.skip_newlines()?;
            if self.take(')') {
                // A `#` here does not begin a comment: the shell reads on in the same word.
                return match self.peek() {
                    None | Some(' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | ')') => Ok(()),
                    Some(_) => Err("a word goes on after an array"),
                };
            }
            if self.read_word(WordPlace::Command)?.is_empty() {
                return Err("an array has an operator in it");
            }
        }
    }

    fn read_redirect(&mut self) -> Result<Redirect, Unparsed> {
        let reads = self.peek() == Some('<');
        self.position += 1;
        let mut kind = if reads { RedirectKind::Read } else { RedirectKind::Write };
        match (reads, self.peek()) {
            (true, Some('<')) => {
                self.position += 1;
                if self.take('<') {
                    kind = RedirectKind::HereString;
                } else {
                    return self.read_here_operator();
                }
            }
            (true, Some('>')) => {
                self.position += 1;
                kind = RedirectKind::Write;
            }
            (false, Some('>' | '|')) => {
                self.position += 1;
                self.take('|');
            }
            (_, Some('&')) => {
                self.position += 1;
                self.skip_blanks();
                let target = self.read_word(WordPlace::Command)?;
                let is_descriptor = target.plain_text().is_some_and(|text| {
                    text.trim_end_matches('-').bytes().all(|byte| byte.is_ascii_digit())
                });
                let kind = match is_descriptor {
                    true => RedirectKind::Duplicate,
                    false if reads => RedirectKind::Read,
                    false => RedirectKind::Write,
                };
                return Ok(Redirect { kind, target });
            }
            _ => {}
        }
        self.skip_blanks();
        let target = self.read_word(WordPlace::Command)?;
        if target.is_empty() {
            return Err("a redirection has no target");
        }
        Ok(Redirect { kind, target })
    }

    /// Reads the rest of `<<WORD` or `<<-WORD`. The text follows after the newline.
    fn read_here_operator(&mut self) -> Result<Redirect, Unparsed> {
        let strips_tabs = self.take('-');
        self.skip_blanks();
        let start = self.position;
        let target = self.read_word(WordPlace::Command)?;
        // Shells disagree about the end of a document whose delimiter spans several lines.
        let on_one_line = !self.has_newline_since(start);
        let delimiter = target.plain_text().filter(|_| on_one_line && !target.is_empty());
        let delimiter = delimiter.ok_or("a here-document has an unusual delimiter")?;
        let index = self.script.here_documents.len();
        self.script.here_documents.push(None);
        let quoted = target.bare().is_none();
        self.awaited.push(AwaitedDocument { index, delimiter, quoted, strips_tabs });
        Ok(Redirect { kind: RedirectKind::Here(index), target })
    }
}

fn first_operator(word: &Word) -> Option<char> {
    word.pieces.iter().find_map(|piece| match piece {
        Piece::Text { text, quoted: false } => {
            text.chars().find(|c| matches!(c, '(' | ')' | '|' | '&' | ';' | '<' | '>'))
        }
        Piece::Text { .. } | Piece::Hole { .. } => None,
    })
}

fn is_descriptor(word: &Word) -> bool {
    word.bare().is_some_and(|text| {
        let named = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        match named {
            Some(name) => {
                !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
            }
            None => text.bytes().all(|byte| byte.is_ascii_digit()),
        }
    })
}

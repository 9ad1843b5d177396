//! Words of a shell script. A word consists of text that is known, and of holes for text that is
//! known only when the script runs.

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Text {
        text: String,
        quoted: bool,
    },
    Hole {
        /// The hole becomes exactly one word, or a part of one.
        quoted: bool,
        /// The text is a number.
        numeric: bool,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) pieces: Vec<Piece>,
}

impl Word {
    pub(crate) fn known(text: &str) -> Self {
        Self { pieces: vec![Piece::Text { text: text.to_owned(), quoted: true }] }
    }

    pub(crate) fn hole(quoted: bool) -> Self {
        Self { pieces: vec![Piece::Hole { quoted, numeric: false }] }
    }

    pub(super) fn push(&mut self, c: char, quoted: bool) {
        if let Some(Piece::Text { text, quoted: last }) = self.pieces.last_mut()
            && *last == quoted
        {
            text.push(c);
        } else {
            self.pieces.push(Piece::Text { text: c.into(), quoted });
        }
    }

    /// Adds an empty quoted text, so that `""` is a word.
    pub(super) fn push_quotes(&mut self) {
        self.pieces.push(Piece::Text { text: String::new(), quoted: true });
    }

    pub(super) fn push_hole(&mut self, quoted: bool, numeric: bool) {
        self.pieces.push(Piece::Hole { quoted, numeric });
    }

    /// The text of the word. `None` if it is known only when the script runs: it has a hole, a file
    /// name pattern, a brace expansion, or starts with `~` or `=`.
    pub(crate) fn literal(&self) -> Option<String> {
        let text = self.plain_text()?;
        // `[` and `[[` are commands, not patterns.
        let is_test = matches!(self.bare(), Some("[" | "[["));
        (is_test || !self.is_expanded()).then_some(text)
    }

    /// The text as written, without the quotes. `None` if the word has a hole.
    pub(crate) fn plain_text(&self) -> Option<String> {
        let mut all = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text { text, .. } => all.push_str(text),
                Piece::Hole { .. } => return None,
            }
        }
        Some(all)
    }

    /// The text before the first hole.
    pub(super) fn start(&self) -> String {
        let texts = self.pieces.iter().map_while(|piece| match piece {
            Piece::Text { text, .. } => Some(&**text),
            Piece::Hole { .. } => None,
        });
        texts.collect()
    }

    /// The text of all parts that are known.
    pub(super) fn known_parts(&self) -> String {
        let texts = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text { text, .. } => Some(&**text),
            Piece::Hole { .. } => None,
        });
        texts.collect()
    }

    /// The word without as many bytes at its start, which are known.
    pub(super) fn without(&self, mut bytes: usize) -> Self {
        let mut rest = Self::default();
        for piece in &self.pieces {
            match piece {
                Piece::Text { text, quoted } => {
                    let cut = bytes.min(text.len());
                    bytes -= cut;
                    let text = text.get(cut..).unwrap_or_default().to_owned();
                    rest.pieces.push(Piece::Text { text, quoted: *quoted });
                }
                Piece::Hole { .. } => rest.pieces.push(piece.clone()),
            }
        }
        rest
    }

    /// Whether the word becomes exactly one argument, known or not.
    pub(super) fn is_one_argument(&self) -> bool {
        !self.can_split() && !self.has_pattern()
    }

    /// The text of a word without quotes and holes, such as a keyword.
    pub(super) fn bare(&self) -> Option<&str> {
        match &*self.pieces {
            [Piece::Text { text, quoted: false }] => Some(text),
            _ => None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Whether a hole can become several words.
    pub(super) fn can_split(&self) -> bool {
        self.pieces
            .iter()
            .any(|piece| matches!(piece, Piece::Hole { quoted: false, numeric: false }))
    }

    pub(super) fn has_hole(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Hole { .. }))
    }

    /// Whether every part of the word is a number, known or not.
    pub(super) fn is_numeric(&self) -> bool {
        self.pieces.iter().all(|piece| match piece {
            Piece::Text { text, .. } => text.bytes().all(|byte| byte.is_ascii_digit()),
            Piece::Hole { numeric, .. } => *numeric,
        })
    }

    fn is_expanded(&self) -> bool {
        let first = self.pieces.first();
        let starts_specially = matches!(first, Some(Piece::Text { text, quoted: false })
            if text.starts_with(['~', '=']));
        starts_specially || self.has_pattern()
    }

    /// Whether a file name pattern or a brace expansion can make several words of this one.
    fn has_pattern(&self) -> bool {
        let unquoted: String = self
            .pieces
            .iter()
            .filter_map(|piece| match piece {
                Piece::Text { text, quoted: false } => Some(&**text),
                Piece::Text { .. } | Piece::Hole { .. } => None,
            })
            .collect();
        let braces = unquoted.contains('{')
            && unquoted.contains('}')
            && (unquoted.contains(',') || unquoted.contains(".."));
        braces || unquoted.contains(['*', '?', '['])
    }
}

/// A value that a command gets or a script sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) name: String,
    pub(crate) value: Word,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RedirectKind {
    Read,
    Write,
    /// Another descriptor, or none.
    Duplicate,
    /// The index of a here-document in [`Script::here_documents`].
    Here(usize),
    /// The text of a here-string is the target.
    HereString,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) kind: RedirectKind,
    pub(crate) target: Word,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SimpleCommand {
    pub(crate) assignments: Vec<Assignment>,
    pub(crate) words: Vec<Word>,
    pub(crate) redirects: Vec<Redirect>,
}

impl SimpleCommand {
    /// Adapts the indices of here-documents after another script's were put before them.
    pub(super) fn shift_here_documents(&mut self, by: usize) {
        for redirect in &mut self.redirects {
            if let RedirectKind::Here(index) = &mut redirect.kind {
                *index += by;
            }
        }
    }
}

/// The simple commands of a script, in the order in which they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Script {
    pub(crate) commands: Vec<SimpleCommand>,
    /// The text of each here-document; `None` if it is known only when the script runs.
    pub(crate) here_documents: Vec<Option<String>>,
    /// Variables whose values are evaluated as arithmetic. Such an evaluation runs commands that
    /// stand in the value.
    pub(crate) arithmetic_names: Vec<String>,
    /// Variables that get a value other than a number, besides those of `assignments`.
    pub(crate) text_names: Vec<String>,
}

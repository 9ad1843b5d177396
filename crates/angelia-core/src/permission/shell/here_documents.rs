//! Reads here-documents: the texts that follow the line in which a command asks for them.

use super::{
    Unparsed,
    reader::Reader,
    word::{Piece, Word},
};

pub(super) struct AwaitedDocument {
    pub(super) index: usize,
    pub(super) delimiter: String,
    pub(super) quoted: bool,
    pub(super) strips_tabs: bool,
}

impl Reader {
    /// Reads the texts of the awaited here-documents. Called after a newline.
    pub(super) fn read_here_documents(&mut self) -> Result<(), Unparsed> {
        if self.newline_is_ambiguous {
            return Err("a here-document starts inside a substitution");
        }
        for awaited in std::mem::take(&mut self.awaited) {
            let mut text = String::new();
            while let Some(line) = self.read_line() {
                let stripped = line.trim_start_matches('\t');
                let compared = if awaited.strips_tabs { stripped } else { &line };
                if compared == awaited.delimiter {
                    break;
                }
                if !awaited.quoted && line.ends_with('\\') {
                    return Err("a line of a here-document ends with a backslash");
                }
                text.push_str(compared);
                text.push('\n');
            }
            self.script.here_documents[awaited.index] = if awaited.quoted {
                Some(text)
            } else {
                let mut inner = Self::new(&text, self.depth + 1)?;
                let mut word = Word::default();
                inner.read_quoted_text(&mut word, None)?;
                self.absorb(inner.script);
                let is_known = !word.pieces.iter().any(|piece| matches!(piece, Piece::Hole { .. }));
                is_known.then_some(word.plain_text().unwrap_or_default())
            };
        }
        Ok(())
    }

    fn read_line(&mut self) -> Option<String> {
        let mut line = String::new();
        let mut found = false;
        while let Some(c) = self.next_raw() {
            found = true;
            if c == '\n' {
                break;
            }
            line.push(c);
        }
        found.then_some(line)
    }
}

//! Follows shells to the scripts that they are given.

use super::{
    Invocation, RedirectKind, Script, SimpleCommand, Unparsed, Word, invocations::Invocations,
    wrappers::folded,
};

impl Invocations {
    pub(super) fn add_shell(
        &mut self,
        words: &[Word],
        input: &Input<'_>,
        nesting: usize,
    ) -> Result<(), Unparsed> {
        let is_fish = folded(&words[0].start()).ends_with("fish");
        let mut rest = &words[1..];
        let (mut takes_script, mut reads_input) = (false, false);
        while let Some((word, after)) = rest.split_first() {
            let text = word.literal().ok_or("an argument of a shell is not literal")?;
            if text == "--" || text == "-" {
                rest = after;
                break;
            }
            if let Some(long) = text.strip_prefix("--") {
                if let Some(script) = long.strip_prefix("command=") {
                    return self.add_script(script, nesting);
                }
                if ["rcfile", "init-file"].iter().any(|option| long.starts_with(option)) {
                    return Err("a shell reads a file before its script");
                }
                takes_script |= long == "command";
                let has_value = matches!(long, "emulate" | "init-command");
                rest = if has_value { after.get(1..).unwrap_or_default() } else { after };
            } else if text.len() > 1 && text.starts_with(['-', '+']) {
                takes_script |= text.starts_with('-') && text.contains('c');
                reads_input |= text.contains('s');
                let valued = if is_fish { text.find(['o', 'C']) } else { text.find(['o', 'O']) };
                if valued.is_some_and(|at| at + 1 < text.len()) {
                    // `-oc name script` here is `-oc script` there.
                    return Err("shells read these options in different ways");
                }
                rest = if valued.is_some() { after.get(1..).unwrap_or_default() } else { after };
            } else {
                break;
            }
        }
        match rest.first() {
            Some(word) if takes_script => {
                let script = word.plain_text().filter(|_| word.literal().is_some());
                self.add_script(&script.ok_or("the script of a shell is not literal")?, nesting)
            }
            Some(word) if !reads_input => {
                // The content of a script file is unknown here.
                let file = word.literal().ok_or("the script of a shell is not literal")?;
                let is_stream =
                    file == "-" || file.starts_with("/dev/") || file.starts_with("/proc");
                if is_stream {
                    return Err("a shell reads its script from its input");
                }
                // A shell also looks for the file in `PATH`, where it may be a program.
                self.all.extend(Invocation::of_words(rest.to_vec()));
                Ok(())
            }
            None if takes_script => Err("a shell has no script"),
            _ => self.add_input(input, nesting),
        }
    }

    /// Follows a shell that reads its script from its input.
    pub(super) fn add_input(&mut self, input: &Input<'_>, nesting: usize) -> Result<(), Unparsed> {
        let script = input.known_text().ok_or("a shell reads its script from its input")?;
        self.add_script(&script, nesting)
    }

    pub(super) fn add_trap(&mut self, words: &[Word], nesting: usize) -> Result<(), Unparsed> {
        let mut operands = words[1..].iter().map(Word::plain_text);
        let operand = operands.find(|text| text.as_deref() != Some("--"));
        match operand {
            None => Ok(()),
            Some(None) => Err("the script of a trap is not literal"),
            Some(Some(text)) if matches!(&*text, "-" | "-l" | "-p" | "") => Ok(()),
            Some(Some(text)) => self.add_script(&text, nesting),
        }
    }
}

/// The redirections that feed a command's standard input.
pub(super) struct Input<'a> {
    pub(super) command: &'a SimpleCommand,
    pub(super) script: &'a Script,
}

impl Input<'_> {
    /// The text of its only here-document or here-string, if it is known.
    fn known_text(&self) -> Option<String> {
        let mut redirects = self.command.redirects.iter();
        let redirect = redirects.next().filter(|_| redirects.next().is_none())?;
        match redirect.kind {
            RedirectKind::Here(index) => self.script.here_documents.get(index)?.clone(),
            RedirectKind::HereString => redirect.target.plain_text(),
            RedirectKind::Read | RedirectKind::Write | RedirectKind::Duplicate => None,
        }
    }
}

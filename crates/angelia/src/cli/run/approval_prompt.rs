//! Puts an approval to the person at the terminal and turns the typed lines into a decision.

use std::fmt::Write as _;

use angelia_core::model::{Approval, ApprovalKind, Decision, QuestionAnswer, Verdict};

use crate::cli::approvals::answers::resolve_option;

/// One approval that is being answered, line by line.
#[derive(Debug)]
pub(crate) struct ApprovalPrompt {
    pub(crate) approval: Approval,
    answers: Vec<QuestionAnswer>,
}

/// The result of a typed line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PromptStep {
    Decided(Decision),
    /// Another question follows, or the line was not understood; prompt again.
    NeedsInput,
}

impl ApprovalPrompt {
    pub(crate) fn new(approval: Approval) -> Self {
        Self { approval, answers: Vec::new() }
    }

    /// Returns the text to print before the cursor.
    pub(crate) fn prompt(&self) -> String {
        match &self.approval.kind {
            ApprovalKind::Tool => {
                let mut text = String::new();
                for (index, rule) in self.approval.rules.iter().enumerate().skip(1) {
                    let rule = rule.replace(char::is_control, " ");
                    let _infallible = writeln!(
                        text,
                        "s{index}, a{index}: the same for everything that is {rule}"
                    );
                }
                text.push_str(
                    "[y]es once, for this [s]ession, [a]lways here, [n]o, [q]uit the turn?",
                );
                text
            }
            ApprovalKind::Question(questions) => {
                let text = questions.get(self.answers.len()).map_or("", |question| &question.text);
                format!("{text} (number or text; empty line to decline)")
            }
        }
    }

    pub(crate) fn handle_line(&mut self, line: &str) -> PromptStep {
        let line = line.trim();
        match &self.approval.kind {
            ApprovalKind::Tool => match self.parse_decision(line) {
                Some(decision) => PromptStep::Decided(decision),
                None => PromptStep::NeedsInput,
            },
            ApprovalKind::Question(questions) => {
                if line.is_empty() {
                    return PromptStep::Decided(Decision::new(Verdict::Deny, "owner"));
                }
                if let Some(question) = questions.get(self.answers.len()) {
                    let answer = resolve_option(question, line);
                    self.answers.push(QuestionAnswer { question: question.text.clone(), answer });
                }
                if self.answers.len() < questions.len() {
                    return PromptStep::NeedsInput;
                }
                let mut decision = Decision::new(Verdict::Once, "owner");
                decision.answers = std::mem::take(&mut self.answers);
                PromptStep::Decided(decision)
            }
        }
    }
}

impl ApprovalPrompt {
    /// A verdict, with the number of a wider rule for `session` and `always`.
    fn parse_decision(&self, line: &str) -> Option<Decision> {
        let word = line.trim_end_matches(|c: char| c.is_ascii_digit());
        let verdict = parse_verdict(word)?;
        let number = &line[word.len()..];
        if number.is_empty() {
            return Some(Decision::new(verdict, "owner"));
        }
        let index: usize = number.parse().ok().filter(|index| *index > 0)?;
        let rule = self.approval.rules.get(index).cloned()?;
        matches!(verdict, Verdict::Session | Verdict::Always)
            .then(|| Decision { rule: Some(rule), ..Decision::new(verdict, "owner") })
    }
}

fn parse_verdict(line: &str) -> Option<Verdict> {
    match line.to_ascii_lowercase().as_str() {
        "y" | "yes" | "once" => Some(Verdict::Once),
        "s" | "session" => Some(Verdict::Session),
        "a" | "always" => Some(Verdict::Always),
        "n" | "no" | "deny" => Some(Verdict::Deny),
        "q" | "quit" | "stop" => Some(Verdict::Stop),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use angelia_core::model::{ApprovalId, Question, QuestionOption};
    use uuid::Uuid;

    use super::*;

    fn asking(kind: ApprovalKind) -> ApprovalPrompt {
        ApprovalPrompt::new(Approval {
            id: ApprovalId::from_uuid(Uuid::nil()),
            kind,
            tool_id: None,
            tool_name: "n".into(),
            title: "t".into(),
            detail: "d".into(),
            rules: Vec::new(),
            expires_at: jiff::Timestamp::UNIX_EPOCH,
        })
    }

    #[test]
    fn an_unclear_answer_allows_nothing() {
        let mut asking = asking(ApprovalKind::Tool);
        for line in ["", "maybe", "ye", "1"] {
            assert_eq!(asking.handle_line(line), PromptStep::NeedsInput, "{line:?}");
        }
        assert_eq!(
            asking.handle_line(" Y "),
            PromptStep::Decided(Decision::new(Verdict::Once, "owner"))
        );
    }

    #[test]
    fn a_wider_rule_has_a_number_of_its_own() {
        let mut asking = asking(ApprovalKind::Tool);
        asking.approval.rules = vec!["Bash(npm test)".into(), "Bash(npm *)".into()];
        assert!(asking.prompt().contains("s1, a1: the same for everything that is Bash(npm *)"));
        let granting = |verdict, rule: Option<&str>| {
            let decision = Decision::new(verdict, "owner");
            PromptStep::Decided(Decision { rule: rule.map(Into::into), ..decision })
        };
        assert_eq!(asking.handle_line("s"), granting(Verdict::Session, None));
        assert_eq!(asking.handle_line("a"), granting(Verdict::Always, None));
        assert_eq!(asking.handle_line("a1"), granting(Verdict::Always, Some("Bash(npm *)")));
        for line in ["s2", "s0", "y1", "a1x"] {
            assert_eq!(asking.handle_line(line), PromptStep::NeedsInput, "{line}");
        }
    }

    #[test]
    fn questions_are_answered_by_number_or_text() {
        let question = |text: &str| Question {
            text: text.into(),
            header: "".into(),
            options: vec![
                QuestionOption { label: "red".into(), description: "".into() },
                QuestionOption { label: "blue".into(), description: "".into() },
            ],
            multiple: false,
        };
        let kind = ApprovalKind::Question([question("Colour?"), question("Trim?")].into());
        let mut asking = asking(kind);
        assert_eq!(asking.handle_line("2"), PromptStep::NeedsInput);
        let PromptStep::Decided(decision) = asking.handle_line("gold") else {
            panic!("two answers were given")
        };
        let answers: Vec<_> = decision.answers.iter().map(|a| (&*a.question, &*a.answer)).collect();
        assert_eq!(answers, [("Colour?", "blue"), ("Trim?", "gold")]);
    }
}

//! One approval at the terminal: the text before the cursor, and the meaning of a typed line.

use angelia_core::model::{Approval, ApprovalKind, Decision, Question, QuestionAnswer, Verdict};

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
    /// The next question of the same approval must be asked.
    NextQuestion,
    /// The line was not understood; prompt again.
    Unclear,
    /// The person wants to know more before deciding.
    Explain,
    /// The person wants to see the whole diff.
    ShowDiff,
}

impl ApprovalPrompt {
    pub(crate) fn new(approval: Approval) -> Self {
        Self { approval, answers: Vec::new() }
    }

    /// Returns the question to answer next; `None` for a tool.
    pub(crate) fn question(&self) -> Option<&Question> {
        match &self.approval.kind {
            ApprovalKind::Tool => None,
            ApprovalKind::Question(questions) => questions.get(self.answers.len()),
        }
    }

    /// Returns the text to print before the cursor.
    pub(crate) fn prompt(&self) -> &'static str {
        match self.question() {
            None if self.approval.diff.is_some() => {
                "[y]es [s]ession [a]lways [n]o [e]xplain [d]iff [q]uit?"
            }
            None => "[y]es [s]ession [a]lways [n]o [e]xplain [q]uit?",
            Some(question) if question.multiple => {
                "numbers with commas between them, or text (empty line to decline):"
            }
            Some(question) if question.options.is_empty() => "(empty line to decline):",
            Some(_) => "number or text (empty line to decline):",
        }
    }

    pub(crate) fn handle_line(&mut self, line: &str) -> PromptStep {
        let line = line.trim();
        let ApprovalKind::Question(questions) = &self.approval.kind else {
            return self.handle_tool_line(line);
        };
        if line.is_empty() {
            return PromptStep::Decided(Decision::new(Verdict::Deny, "owner"));
        }
        if let Some(question) = questions.get(self.answers.len()) {
            let answer = if question.multiple {
                let chosen = line.split(',').map(str::trim).filter(|one| !one.is_empty());
                let chosen: Vec<_> = chosen.map(|one| resolve_option(question, one)).collect();
                chosen.join(", ").into()
            } else {
                resolve_option(question, line)
            };
            self.answers.push(QuestionAnswer { question: question.text.clone(), answer });
        }
        if self.answers.len() < questions.len() {
            return PromptStep::NextQuestion;
        }
        let mut decision = Decision::new(Verdict::Once, "owner");
        decision.answers = std::mem::take(&mut self.answers);
        PromptStep::Decided(decision)
    }

    fn handle_tool_line(&self, line: &str) -> PromptStep {
        match line.to_ascii_lowercase().as_str() {
            "e" | "explain" | "?" => PromptStep::Explain,
            "d" | "diff" if self.approval.diff.is_some() => PromptStep::ShowDiff,
            _ => self.parse_decision(line).map_or(PromptStep::Unclear, PromptStep::Decided),
        }
    }
}

impl ApprovalPrompt {
    /// Parses a verdict, with the number of a wider rule for `session` and `always`.
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
pub(crate) mod tests {
    use angelia_core::model::{ApprovalId, QuestionOption};
    use uuid::Uuid;

    use super::*;

    pub(crate) fn tool_approval() -> Approval {
        Approval {
            id: ApprovalId::from_uuid(Uuid::nil()),
            kind: ApprovalKind::Tool,
            tool_id: None,
            tool_name: "n".into(),
            title: "t".into(),
            detail: "d".into(),
            diff: None,
            rules: Vec::new(),
            expires_at: jiff::Timestamp::UNIX_EPOCH,
        }
    }

    fn asking(kind: ApprovalKind) -> ApprovalPrompt {
        ApprovalPrompt::new(Approval { kind, ..tool_approval() })
    }

    #[test]
    fn an_unclear_answer_allows_nothing() {
        let mut asking = asking(ApprovalKind::Tool);
        for line in ["", "maybe", "ye", "1", "yy"] {
            assert_eq!(asking.handle_line(line), PromptStep::Unclear, "{line:?}");
        }
        assert_eq!(asking.handle_line("E"), PromptStep::Explain);
        assert_eq!(asking.handle_line("d"), PromptStep::Unclear, "there is no diff");
        asking.approval.diff = Some("--- a/x\n".into());
        assert_eq!(asking.handle_line("d"), PromptStep::ShowDiff);
        assert_eq!(
            asking.handle_line(" Y "),
            PromptStep::Decided(Decision::new(Verdict::Once, "owner"))
        );
    }

    #[test]
    fn a_wider_rule_has_a_number_of_its_own() {
        let mut asking = asking(ApprovalKind::Tool);
        asking.approval.rules = vec!["Bash(npm test)".into(), "Bash(npm *)".into()];
        let granting = |verdict, rule: Option<&str>| {
            let decision = Decision::new(verdict, "owner");
            PromptStep::Decided(Decision { rule: rule.map(Into::into), ..decision })
        };
        assert_eq!(asking.handle_line("s"), granting(Verdict::Session, None));
        assert_eq!(asking.handle_line("a"), granting(Verdict::Always, None));
        assert_eq!(asking.handle_line("a1"), granting(Verdict::Always, Some("Bash(npm *)")));
        for line in ["s2", "s0", "y1", "a1x"] {
            assert_eq!(asking.handle_line(line), PromptStep::Unclear, "{line}");
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
        assert_eq!(asking.handle_line("2"), PromptStep::NextQuestion);
        let PromptStep::Decided(decision) = asking.handle_line("gold") else {
            panic!("two answers were given")
        };
        let answers: Vec<_> = decision.answers.iter().map(|a| (&*a.question, &*a.answer)).collect();
        assert_eq!(answers, [("Colour?", "blue"), ("Trim?", "gold")]);
    }

    #[test]
    fn several_options_are_chosen_by_their_numbers() {
        let option = |label: &str| QuestionOption { label: label.into(), description: "".into() };
        let question = Question {
            text: "Which?".into(),
            header: "".into(),
            options: vec![option("red"), option("blue")],
            multiple: true,
        };
        let mut asking = asking(ApprovalKind::Question([question].into()));
        let PromptStep::Decided(decision) = asking.handle_line("2, 1,gold") else {
            panic!("an answer was given")
        };
        assert_eq!(&*decision.answers[0].answer, "blue, red, gold");
    }
}

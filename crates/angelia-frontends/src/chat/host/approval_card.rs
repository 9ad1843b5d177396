//! Approvals and questions as messages with buttons. Pure.

use std::{fmt::Write as _, sync::Arc};

use angelia_core::{
    model::{
        Approval, ApprovalId, ApprovalKind, Decision, Question, QuestionAnswer, Resolution, Verdict,
    },
    ports::Button,
};
use uuid::Uuid;

/// The maximum lengths of the parts of an approval, in characters. Together they fit into one message of
/// [`FULL_ROOM`]; they shrink where messages are shorter.
const MAX_TITLE: usize = 900;
const MAX_DETAIL: usize = 600;
const MAX_DIFF: usize = 1800;
pub(super) const FULL_ROOM: usize = 4000;

/// Questions with more options than this can only be answered by text.
const MAX_OPTIONS: usize = 8;

/// How many of the agent's suggested rules get a button.
const MAX_RULES: usize = 3;
const MAX_LABEL: usize = 60;

/// The meaning of a button.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PressChoice {
    Verdict(Verdict),
    /// Allow, for this session, whatever this rule of the approval covers.
    Rule(usize),
    /// This option of the approval's only question.
    Option(usize),
}

/// Describes an approval and how to decide it by text. `room` is the maximum length of a message.
pub(super) fn card_text(
    approval: &Approval,
    short_id: &str,
    can_decide: bool,
    room: usize,
) -> String {
    let part = |max: usize| max * room.min(FULL_ROOM) / FULL_ROOM;
    let mut text = match &approval.kind {
        ApprovalKind::Tool => format!("The agent asks to use {}:\n", approval.tool_name),
        ApprovalKind::Question(_) => "The agent asks:\n".to_owned(),
    };
    match &approval.kind {
        ApprovalKind::Tool => {
            push_fenced(&mut text, "", &approval.title, part(MAX_TITLE));
            let detail = approval.detail.trim();
            if !detail.is_empty() && *detail != *approval.title && approval.diff.is_none() {
                push_fenced(&mut text, "", detail, part(MAX_DETAIL));
            }
        }
        ApprovalKind::Question(questions) => {
            for (index, question) in questions.iter().enumerate() {
                push_question(&mut text, index, question, questions.len() > 1, part(MAX_DETAIL));
            }
        }
    }
    if let Some(diff) = &approval.diff {
        push_fenced(&mut text, "diff", diff, part(MAX_DIFF));
    }
    let how = match (&approval.kind, can_decide) {
        (_, false) => format!("\nDecide it on the machine: `angelia approvals approve {short_id}`"),
        (ApprovalKind::Tool, true) => format!("\n/approve {short_id} · /deny {short_id}"),
        (ApprovalKind::Question(questions), true) if questions.len() > 1 => {
            format!("\n/approve {short_id} ANSWER; ANSWER … · /deny {short_id}")
        }
        (ApprovalKind::Question(_), true) => {
            format!("\n/approve {short_id} ANSWER · /deny {short_id}")
        }
    };
    text.push_str(&how);
    text
}

fn push_question(
    text: &mut String,
    index: usize,
    question: &Question,
    has_number: bool,
    max: usize,
) {
    let words: String = question.text.chars().take(max).collect();
    let number = if has_number { format!("{}. ", index + 1) } else { String::new() };
    let _infallible = writeln!(text, "\n**{number}{}**", words.replace(['*', '\n'], " "));
    for option in &question.options {
        let about: String = option.description.chars().take(120).collect();
        let _infallible = writeln!(text, "- {}: {}", option.label, about.replace('\n', " "));
    }
}

/// Appends a code block whose fence is longer than any run of backticks in the content.
fn push_fenced(text: &mut String, language: &str, content: &str, max: usize) {
    let shown: String = content.chars().take(max).collect();
    let rest = content.chars().count().saturating_sub(max);
    let longest = shown.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    let _infallible = writeln!(text, "\n{fence}{language}\n{shown}\n{fence}");
    if rest > 0 {
        let _infallible = writeln!(text, "\n({rest} more characters)");
    }
}

/// Returns the buttons of an approval, each with the typed command that does the same, if there is
/// one.
pub(super) fn card_buttons(approval: &Approval, short_id: &str) -> Vec<Button> {
    let id = approval.id.as_uuid().simple();
    let button = |label: &str, code: String, words: Option<String>| {
        let label: String = label.chars().take(MAX_LABEL).collect();
        let words = words.map(|words| words.trim_end().into());
        Button { label: label.into(), value: format!("{code}:{id}").into(), words }
    };
    let allow = |choice: &str| Some(format!("/approve {short_id} {choice}"));
    let mut buttons = Vec::new();
    match &approval.kind {
        ApprovalKind::Tool => {
            buttons.push(button("Allow once", "o".to_owned(), allow("")));
            buttons.push(button("Allow for session", "s".to_owned(), allow("session")));
        }
        ApprovalKind::Question(questions) => {
            if let [only] = &**questions
                && !only.multiple
                && only.options.len() <= MAX_OPTIONS
            {
                let options = only.options.iter().enumerate();
                buttons.extend(options.map(|(index, option)| {
                    button(&option.label, format!("q{index}"), allow(&option.label))
                }));
            }
        }
    }
    buttons.push(button("Deny", "d".to_owned(), Some(format!("/deny {short_id}"))));
    // The first rule covers the call itself, which "for session" already grants.
    let rules = approval.rules.iter().enumerate().skip(1).take(MAX_RULES);
    buttons.extend(
        rules.map(|(index, rule)| button(&format!("Session: {rule}"), format!("r{index}"), None)),
    );
    buttons
}

/// Parses the value of a button.
pub(super) fn parse_press(value: &str) -> Option<(ApprovalId, PressChoice)> {
    let (code, id) = value.split_once(':')?;
    let id = ApprovalId::from_uuid(Uuid::try_parse(id).ok()?);
    let choice = match (code.get(..1)?, code.get(1..)?) {
        ("o", "") => PressChoice::Verdict(Verdict::Once),
        ("s", "") => PressChoice::Verdict(Verdict::Session),
        ("d", "") => PressChoice::Verdict(Verdict::Deny),
        ("r", number) => PressChoice::Rule(number.parse().ok()?),
        ("q", number) => PressChoice::Option(number.parse().ok()?),
        _ => return None,
    };
    Some((id, choice))
}

/// Returns the decision for a pressed button, or `None` if the approval does not offer it.
pub(super) fn decide_by_choice(
    approval: &Approval,
    choice: PressChoice,
    by: &str,
) -> Option<Decision> {
    match (choice, &approval.kind) {
        (PressChoice::Verdict(verdict), kind) => {
            kind.choices().contains(&verdict).then(|| Decision::new(verdict, by))
        }
        (PressChoice::Rule(index), ApprovalKind::Tool) => {
            let rule = Some(Arc::clone(approval.rules.get(index)?));
            Some(Decision { rule, ..Decision::new(Verdict::Session, by) })
        }
        (PressChoice::Option(index), ApprovalKind::Question(questions)) => {
            let question = questions.first()?;
            let answer = Arc::clone(&question.options.get(index)?.label);
            Some(with_answers(questions, [answer], by))
        }
        (PressChoice::Rule(_), ApprovalKind::Question(_))
        | (PressChoice::Option(_), ApprovalKind::Tool) => None,
    }
}

/// Returns the decision for a typed reply. The error tells the person what to write instead.
pub(super) fn decide_by_words(
    approval: &Approval,
    words: &str,
    by: &str,
) -> Result<Decision, String> {
    match &approval.kind {
        ApprovalKind::Tool => match words {
            "" | "once" => Ok(Decision::new(Verdict::Once, by)),
            "session" => Ok(Decision::new(Verdict::Session, by)),
            "always" => Ok(Decision::new(Verdict::Always, by)),
            other => Err(format!(
                "`{other}` is not a choice; write `once`, `session` or `always` after the id."
            )),
        },
        ApprovalKind::Question(questions) => {
            let answers: Vec<Arc<str>> = match questions.len() {
                1 => vec![words.into()],
                _ => words.split(';').map(|answer| answer.trim().into()).collect(),
            };
            let is_complete =
                answers.len() == questions.len() && answers.iter().all(|one| !one.is_empty());
            if !is_complete {
                let count = questions.len();
                return Err(format!(
                    "Write {count} answer(s) after the id, with `;` between them."
                ));
            }
            Ok(with_answers(questions, answers, by))
        }
    }
}

fn with_answers(
    questions: &[Question],
    answers: impl IntoIterator<Item = Arc<str>>,
    by: &str,
) -> Decision {
    let answers = questions.iter().zip(answers);
    let answers = answers
        .map(|(question, answer)| QuestionAnswer { question: Arc::clone(&question.text), answer });
    Decision { answers: answers.collect(), ..Decision::new(Verdict::Once, by) }
}

/// Describes how an approval was decided.
pub(super) fn decided_words(resolution: &Resolution) -> String {
    let verb = match resolution.verdict {
        Verdict::Once => "Allowed once",
        Verdict::Session => "Allowed for the session",
        Verdict::Always => "Allowed for good",
        Verdict::Deny => "Denied",
        Verdict::Stop => "Denied, and the turn stopped",
    };
    format!("{verb} by {}", resolution.by)
}

#[cfg(test)]
mod tests {
    use angelia_core::model::QuestionOption;
    use jiff::Timestamp;

    use super::*;

    fn approval(kind: ApprovalKind) -> Approval {
        Approval {
            id: ApprovalId::from_uuid(Uuid::from_u128(0xabc)),
            kind,
            tool_id: None,
            tool_name: "Bash".into(),
            title: "rm -rf ```x```".into(),
            detail: "in /tmp".into(),
            diff: None,
            rules: vec!["Bash(rm -rf x)".into(), "Bash(rm *)".into()],
            expires_at: Timestamp::UNIX_EPOCH,
        }
    }

    fn question() -> ApprovalKind {
        let option = |label: &str| QuestionOption { label: label.into(), description: "it".into() };
        ApprovalKind::Question(
            [Question {
                text: "Which?".into(),
                header: "H".into(),
                options: vec![option("red"), option("blue")],
                multiple: false,
            }]
            .into(),
        )
    }

    #[test]
    fn every_button_is_short_enough_and_comes_back_as_what_it_says() {
        let tool = approval(ApprovalKind::Tool);
        let buttons = card_buttons(&tool, "0abc");
        let labels: Vec<&str> = buttons.iter().map(|one| &*one.label).collect();
        assert_eq!(labels, ["Allow once", "Allow for session", "Deny", "Session: Bash(rm *)"]);
        let words: Vec<Option<&str>> = buttons.iter().map(|one| one.words.as_deref()).collect();
        let (once, session) = (Some("/approve 0abc"), Some("/approve 0abc session"));
        assert_eq!(words, [once, session, Some("/deny 0abc"), None]);
        let mut decisions = Vec::new();
        for button in buttons {
            assert!(button.value.len() <= 64);
            let (id, choice) = parse_press(&button.value).unwrap();
            assert_eq!(id, tool.id);
            let decision = decide_by_choice(&tool, choice, "Ada").unwrap();
            decisions.push((decision.verdict, decision.rule));
        }
        let rule: Arc<str> = "Bash(rm *)".into();
        assert_eq!(
            decisions,
            [
                (Verdict::Once, None),
                (Verdict::Session, None),
                (Verdict::Deny, None),
                (Verdict::Session, Some(rule)),
            ]
        );
        let asks = approval(question());
        let (_, choice) = parse_press(&card_buttons(&asks, "0abc")[1].value).unwrap();
        let decision = decide_by_choice(&asks, choice, "Ada").unwrap();
        assert_eq!(&*decision.answers[0].answer, "blue");
        for garbage in ["", "x", "o:", "o:zz", "z:00000000000000000000000000000abc", "q:1", "é:1"]
        {
            assert_eq!(parse_press(garbage), None, "{garbage}");
        }
        let foreign = parse_press("q7:00000000000000000000000000000abc").unwrap();
        assert_eq!(decide_by_choice(&tool, foreign.1, "Ada"), None);
    }

    #[test]
    fn words_decide_too() {
        let tool = approval(ApprovalKind::Tool);
        assert_eq!(decide_by_words(&tool, "always", "A").unwrap().verdict, Verdict::Always);
        assert!(decide_by_words(&tool, "maybe", "A").is_err());
        let asks = approval(question());
        assert_eq!(
            &*decide_by_words(&asks, "a red one", "A").unwrap().answers[0].answer,
            "a red one"
        );
        assert!(decide_by_words(&asks, "", "A").is_err());
    }

    #[test]
    fn a_card_shows_what_is_asked() {
        insta::assert_snapshot!(card_text(&approval(ApprovalKind::Tool), "0000abc", true, FULL_ROOM), @r"
        The agent asks to use Bash:

        ````
        rm -rf ```x```
        ````

        ```
        in /tmp
        ```

        /approve 0000abc · /deny 0000abc
        ");
        insta::assert_snapshot!(card_text(&approval(question()), "0000abc", true, FULL_ROOM), @r"
        The agent asks:

        **Which?**
        - red: it
        - blue: it

        /approve 0000abc ANSWER · /deny 0000abc
        ");
        let edit =
            Approval { diff: Some("+x\n".repeat(2000).into()), ..approval(ApprovalKind::Tool) };
        assert!(card_text(&edit, "0000abc", false, FULL_ROOM).len() < FULL_ROOM);
        assert!(card_text(&edit, "0000abc", false, 2000).len() < 2000);
    }
}

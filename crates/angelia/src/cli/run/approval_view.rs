//! Writes an approval for a person: the agent's request, and all of its details on demand.

use std::io::{self, Write};

use angelia_core::model::{Approval, ApprovalKind, Question};

use super::screen::{Screen, Tone};
use crate::cli::{
    print::{format_minute, show_controls},
    text_width::rows,
    view::diff_style,
};

/// Number of diff rows shown with the question.
const MAX_DIFF_ROWS: usize = 40;

/// Writes a whole approval for a person who is only watching.
pub(crate) fn write_approval<Out: Write, Err: Write>(
    screen: &mut Screen<Out, Err>,
    approval: &Approval,
) -> io::Result<()> {
    match &approval.kind {
        ApprovalKind::Tool => write_tool(screen, approval),
        ApprovalKind::Question(questions) => {
            questions.iter().try_for_each(|question| write_question(screen, question))
        }
    }
}

/// Writes the effect of a tool call.
pub(crate) fn write_tool<Out: Write, Err: Write>(
    screen: &mut Screen<Out, Err>,
    approval: &Approval,
) -> io::Result<()> {
    screen.write_line(Tone::Bold, &format!("? {}", approval.title))?;
    // Most details begin with the title, which has already been shown.
    let detail = approval.detail.strip_prefix(&*approval.title);
    let detail = detail.and_then(|rest| rest.strip_prefix('\n')).unwrap_or(&approval.detail);
    screen.write_line(Tone::Faint, detail)?;
    if let Some(diff) = &approval.diff {
        write_diff(screen, diff, MAX_DIFF_ROWS)?;
    }
    for (index, rule) in approval.rules.iter().enumerate().skip(1) {
        let rule = one_line(rule);
        let line = format!("s{index}, a{index}: the same for everything that is {rule}");
        screen.write_line(Tone::Faint, &line)?;
    }
    Ok(())
}

/// Writes the diff of an edit without a limit.
pub(crate) fn write_whole_diff<Out: Write, Err: Write>(
    screen: &mut Screen<Out, Err>,
    diff: &str,
) -> io::Result<()> {
    write_diff(screen, diff, usize::MAX)
}

/// Writes a diff, limited to this many rows of the screen.
fn write_diff<Out: Write, Err: Write>(
    screen: &mut Screen<Out, Err>,
    diff: &str,
    limit: usize,
) -> io::Result<()> {
    let width = screen.width();
    let mut used = 0_usize;
    let mut lines = diff.lines();
    while let Some(line) = lines.next() {
        let line = show_controls(line).replace('\t', "    ");
        used = used.saturating_add(rows(&line, width));
        if used > limit {
            let more = lines.count() + 1;
            let (count, s) = (more, if more == 1 { "" } else { "s" });
            return screen.write_line(Tone::Faint, &format!("… {count} more line{s}: [d]iff"));
        }
        screen.write_line(diff_style(&line).into(), &line)?;
    }
    Ok(())
}

/// Writes a question with its numbered options.
pub(crate) fn write_question<Out: Write, Err: Write>(
    screen: &mut Screen<Out, Err>,
    question: &Question,
) -> io::Result<()> {
    screen.write_line(Tone::Bold, &format!("? {}", question.text))?;
    for (index, option) in question.options.iter().enumerate() {
        let line = format!("  {}. {}  {}", index + 1, option.label, option.description);
        screen.write_line(Tone::Faint, line.trim_end())?;
    }
    Ok(())
}

/// Writes the effect of each answer, and the other places where the approval can be decided.
pub(crate) fn write_explanation<Out: Write, Err: Write>(
    screen: &mut Screen<Out, Err>,
    approval: &Approval,
) -> io::Result<()> {
    let mut lines = vec![
        format!("The agent waits for permission to use its tool {}:", approval.tool_name),
        approval.detail.to_string(),
        "y  allows this call".to_owned(),
    ];
    if let Some(exact) = approval.rules.first() {
        let exact = one_line(exact);
        lines.push(format!("s  allows it for the rest of the session: {exact}"));
        lines.push(format!("a  allows it in this directory from now on: {exact}"));
    }
    for (index, rule) in approval.rules.iter().enumerate().skip(1) {
        let rule = one_line(rule);
        lines.push(format!("s{index}, a{index}  the same for everything that is {rule}"));
    }
    if approval.diff.is_some() {
        lines.push("d  shows all that would change".to_owned());
    }
    lines.push("n  refuses; the agent continues without it".to_owned());
    lines.push("q  refuses and ends the turn".to_owned());
    lines.push(format!(
        "Without an answer it is refused at {}.\nIf the daemon runs this turn, another terminal can \
         decide it:\nangelia approvals approve {}",
        format_minute(approval.expires_at),
        approval.id
    ));
    lines.iter().try_for_each(|line| screen.write_line(Tone::Plain, line))
}

/// Puts a rule on one line, because it may contain a script of several lines.
fn one_line(rule: &str) -> String {
    rule.replace(char::is_control, " ")
}

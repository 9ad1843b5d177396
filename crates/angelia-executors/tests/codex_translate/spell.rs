//! Formats the steps of a recording: one line per emission, after the number of the line that
//! caused it.

use std::fmt::Write as _;

use angelia_executors::codex::translate::{DeferredReply, RequestOutcome};

use super::{
    driver::ReplayStep,
    translated::format::{format_agent_event, format_outcome},
};

pub(crate) fn spell(steps: &[ReplayStep]) -> String {
    let mut text = String::new();
    for step in steps {
        let line = step.line.map_or_else(|| "eof".to_owned(), |line| line.to_string());
        let thread = match step.thread {
            0 => String::new(),
            other => format!("[{other}] "),
        };
        let said = (step.emitted.iter().map(format_agent_event))
            .chain(step.answer.iter().map(spell_answer))
            .chain(step.reply.iter().map(spell_reply))
            .chain(step.ended.iter().map(format_outcome));
        for said in said {
            writeln!(text, "{line:>3}  {thread}{said}").unwrap();
        }
    }
    text
}

fn spell_answer(answer: &RequestOutcome) -> String {
    match answer {
        RequestOutcome::Approval(key) => format!("=> asked {key}"),
        RequestOutcome::CallerTool(id) => format!("=> waits for the caller's tool {id}"),
        RequestOutcome::Now(result) => format!("=> answered {}", result.get()),
        RequestOutcome::Error(error) => format!("=> refused {} {:?}", error.code, error.message),
    }
}

fn spell_reply(reply: &DeferredReply) -> String {
    let interrupt = if reply.then_interrupt { " and interrupts" } else { "" };
    let tell = reply.then_steer.as_ref().map(|words| format!(" and tells {words:?}"));
    let tell = tell.unwrap_or_default();
    format!("=> decided {} {}{interrupt}{tell}", reply.id, reply.result.get())
}

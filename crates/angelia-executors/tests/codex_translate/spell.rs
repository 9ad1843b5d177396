//! Formats the steps of a recording: one line per emission, after the number of the line that
//! caused it.

use std::fmt::Write as _;

use angelia_executors::codex::translate::{Answer, Reply};

use super::{
    driver::Step,
    translated::spell::{spell_emitted, spell_ended},
};

pub(crate) fn spell(steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps {
        let line = step.line.map_or_else(|| "eof".to_owned(), |line| line.to_string());
        let thread = match step.thread {
            0 => String::new(),
            other => format!("[{other}] "),
        };
        let said = (step.emitted.iter().map(spell_emitted))
            .chain(step.answer.iter().map(spell_answer))
            .chain(step.reply.iter().map(spell_reply))
            .chain(step.ended.iter().map(spell_ended));
        for said in said {
            writeln!(text, "{line:>3}  {thread}{said}").unwrap();
        }
    }
    text
}

fn spell_answer(answer: &Answer) -> String {
    match answer {
        Answer::Asked(key) => format!("=> asked {key}"),
        Answer::Tool(id) => format!("=> waits for the caller's tool {id}"),
        Answer::Now(result) => format!("=> answered {}", result.get()),
        Answer::Error(error) => format!("=> refused {} {:?}", error.code, error.message),
    }
}

fn spell_reply(reply: &Reply) -> String {
    let interrupt = if reply.then_interrupt { " and interrupts" } else { "" };
    let tell = reply.then_tell.as_ref().map(|words| format!(" and tells {words:?}"));
    let tell = tell.unwrap_or_default();
    format!("=> decided {} {}{interrupt}{tell}", reply.id, reply.result.get())
}

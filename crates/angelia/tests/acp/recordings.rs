//! All recordings of the real agents, shown to an editor: every line is valid in the protocol, and
//! the text is the agent's.

use std::{collections::HashMap, path::Path};

use angelia_core::{
    model::{
        Approval, ApprovalId, ApprovalRequest, EventKind, SessionId, TextChannel, TurnEvent, TurnId,
    },
    ports::AgentEvent,
};
use angelia_frontends::acp::{EditorFeatures, UpdateEncoder};
use serde_json::Value;
use uuid::Uuid;

use crate::{claude_driver, codex_driver, schema};

/// Returns the approval as the engine would record it.
fn approval(request: &ApprovalRequest, number: usize) -> Approval {
    Approval {
        id: ApprovalId::from_uuid(Uuid::from_u128(number as u128)),
        kind: request.kind.clone(),
        tool_id: request.tool_id.clone(),
        tool_name: request.tool_name.clone(),
        title: request.title.clone(),
        detail: request.detail.clone(),
        diff: None,
        rules: Vec::new(),
        expires_at: jiff::Timestamp::UNIX_EPOCH,
    }
}

/// Shows the emitted events, turn by turn.
fn show<'a>(name: &str, emitted: impl Iterator<Item = (usize, &'a AgentEvent)>) {
    let session = SessionId::from_uuid(Uuid::from_u128(1));
    let mut updates =
        UpdateEncoder::new(session, Path::new("/workspace"), EditorFeatures { notices: true });
    let mut said: HashMap<(usize, u32), String> = HashMap::new();
    let mut heard: HashMap<String, String> = HashMap::new();
    for (number, (turn, emitted)) in emitted.enumerate() {
        let kind = match emitted {
            AgentEvent::Event(kind) => kind.clone(),
            AgentEvent::ApprovalRequest(request) => EventKind::Approval(approval(request, number)),
            AgentEvent::ApprovalWithdrawn(_)
            | AgentEvent::Activity(_)
            | AgentEvent::Quota(_)
            | AgentEvent::HandedOnCost(_) => {
                continue;
            }
        };
        if let EventKind::Block { block, channel: TextChannel::Answer, text } = &kind {
            said.insert((turn, *block), text.to_string());
        }
        let event = TurnEvent {
            turn: TurnId::from_uuid(Uuid::from_u128(turn as u128)),
            session,
            seq: number as u64 + 1,
            at: jiff::Timestamp::UNIX_EPOCH,
            kind,
        };
        let mut out = Vec::new();
        updates.encode_event(&event, &mut out);
        for line in String::from_utf8(out).unwrap().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            schema::assert_valid(&line, |_| None);
            let update = &line["params"]["update"];
            if update["sessionUpdate"] == "agent_message_chunk" {
                let id = update["messageId"].as_str().unwrap().to_owned();
                let text = update["content"]["text"].as_str().unwrap();
                heard.entry(id).or_default().push_str(text);
            }
        }
    }
    for ((turn, block), text) in said {
        let id = format!("{}-{block}", Uuid::from_u128(turn as u128));
        let heard = heard.remove(&id).unwrap_or_default();
        assert!(heard.ends_with(&text), "{name}: {text:?} was shown as {heard:?}");
    }
}

#[test]
fn claude_code_as_recorded() {
    for fixture in claude_driver::all_recordings() {
        let steps = claude_driver::run(&fixture);
        let emitted = steps.iter().flat_map(|step| {
            let of_turn = move |emitted| (step.turn, emitted);
            step.emitted.iter().map(of_turn)
        });
        show(&fixture.name, emitted);
    }
}

#[test]
fn codex_as_recorded() {
    for fixture in codex_driver::all() {
        let steps = codex_driver::drive(&fixture.lines);
        let emitted = steps.iter().flat_map(|step| {
            let of_turn = move |emitted| (step.thread * 1000 + step.turn, emitted);
            step.emitted.iter().map(of_turn)
        });
        show(&fixture.name, emitted);
    }
}

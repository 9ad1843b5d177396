//! Assembles tool calls from the pieces of a stream. Servers disagree about which pieces have an
//! index, an id and a name: some give every call the index 0, some repeat the id or the name in
//! every piece, some omit the id, and some send the arguments as an object.

use angelia_core::model::RawJson;
use serde_json::value::RawValue;

use super::{
    super::{ReceivedCall, stream::made_call_id},
    wire::CallPiece,
};

#[derive(Debug, Default)]
pub(super) struct CallAssembly {
    calls: Vec<OpenCall>,
}

#[derive(Debug, Default)]
struct OpenCall {
    index: Option<i64>,
    id: Option<String>,
    name: String,
    arguments: String,
    extra: Option<RawJson>,
}

impl CallAssembly {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Adds a piece. Returns the name of the call if the piece begins a new one.
    pub(super) fn add(&mut self, piece: &CallPiece<'_>) -> Option<String> {
        let id = piece.id.and_then(id_text);
        let index = piece.index.get();
        let function = piece.function.0.as_ref();
        let name = function.and_then(|function| function.name.as_str()).unwrap_or_default();
        let arguments = function.and_then(|function| function.arguments).map(arguments_text);
        let arguments = arguments.unwrap_or_default();

        let found = self.place_of(index, id.as_deref(), name, &arguments);
        let is_new = found.is_none();
        if is_new {
            self.calls.push(OpenCall { index, ..OpenCall::default() });
        }
        let place = found.unwrap_or(self.calls.len() - 1);
        let call = &mut self.calls[place];
        call.id = call.id.take().or(id);
        call.add_name(name);
        call.add_arguments(&arguments);
        if let Some(extra) = piece.extra_content {
            call.extra = Some(extra.to_owned().into());
        }
        is_new.then(|| call.name.clone())
    }

    /// Returns the index of the call that a piece continues.
    fn place_of(
        &self,
        index: Option<i64>,
        id: Option<&str>,
        name: &str,
        arguments: &ArgumentsPiece,
    ) -> Option<usize> {
        let same_index =
            |call: &OpenCall| index.is_none() || call.index.is_none() || call.index == index;
        let place = if let Some(id) = id {
            // A new id means a new call, whatever its index, unless a call is still waiting for its
            // id.
            let known = |call: &OpenCall| same_index(call) && call.id.as_deref() == Some(id);
            let waiting = |call: &OpenCall| {
                same_index(call) && call.id.is_none() && (name.is_empty() || call.name.is_empty())
            };
            let known = self.calls.iter().rposition(known);
            known.or_else(|| self.calls.iter().rposition(waiting))?
        } else if index.is_some() {
            self.calls.iter().rposition(|call| call.index == index)?
        } else {
            self.calls.len().checked_sub(1)?
        };
        let begins_another =
            !name.is_empty() && arguments.begins_object() && self.calls[place].is_whole();
        (!begins_another).then_some(place)
    }

    /// Returns the calls in the order in which they began. Missing and duplicate ids are replaced.
    pub(super) fn finish(self, place: u64) -> Vec<ReceivedCall> {
        let mut calls: Vec<ReceivedCall> = Vec::with_capacity(self.calls.len());
        for (number, call) in self.calls.into_iter().enumerate() {
            let is_known = |id: &str| calls.iter().any(|earlier| *earlier.id == *id);
            let id = call.id.filter(|id| !is_known(id));
            calls.push(ReceivedCall {
                id: id.map_or_else(|| made_call_id(place, number), Into::into),
                name: call.name.into(),
                arguments: call.arguments.into(),
                extra: call.extra,
            });
        }
        calls
    }
}

impl OpenCall {
    /// Adds the name from a piece. Servers send the name once, repeat it in every piece, or send it
    /// in parts.
    fn add_name(&mut self, name: &str) {
        if name.starts_with(&self.name) {
            name.clone_into(&mut self.name);
        } else if self.arguments.is_empty() && !self.name.ends_with(name) {
            self.name.push_str(name);
        }
    }

    fn add_arguments(&mut self, piece: &ArgumentsPiece) {
        match piece {
            ArgumentsPiece::Text(text) => self.arguments.push_str(text),
            // An object is complete, so a second one repeats or replaces the first.
            ArgumentsPiece::Object(text) => self.arguments.clone_from(text),
        }
    }

    fn is_whole(&self) -> bool {
        let parsed = serde_json::from_str::<&RawValue>(&self.arguments);
        parsed.is_ok_and(|value| value.get().starts_with('{'))
    }
}

enum ArgumentsPiece {
    /// A piece of the JSON text.
    Text(String),
    /// The object, as JSON text.
    Object(String),
}

impl Default for ArgumentsPiece {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl ArgumentsPiece {
    fn begins_object(&self) -> bool {
        let (Self::Text(text) | Self::Object(text)) = self;
        text.trim_start().starts_with('{')
    }
}

fn arguments_text(raw: &RawValue) -> ArgumentsPiece {
    match serde_json::from_str(raw.get()) {
        Ok(text) => ArgumentsPiece::Text(text),
        Err(_) => ArgumentsPiece::Object(raw.get().to_owned()),
    }
}

/// Returns an id as text; `None` if it is empty.
fn id_text(raw: &RawValue) -> Option<String> {
    let text = serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().to_owned());
    (!text.is_empty()).then_some(text)
}
